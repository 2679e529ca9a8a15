#include "client/cli/launch_job.hpp"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "client/frontend/environment.hpp"
#include "client/frontend/translate.hpp"
#include "config/diagnostics.hpp"
#include "config/load.hpp"

namespace npu::cli {
namespace {

namespace fs = std::filesystem;

const char* environment(const char* name) { return std::getenv(name); }

bool exists_as(const std::string& path, bool directory) {
  std::error_code error;
  return directory ? fs::is_directory(path, error) : fs::is_regular_file(path, error);
}

std::string absolute(const std::string& path) {
  std::error_code error;
  const fs::path whole = fs::absolute(path, error);
  return error ? path : whole.lexically_normal().string();
}

/// The positional, or TensorFlow's --data_dir.
Result<std::string> data_folder(const JobRequest& request) {
  const std::string named = request.given.text("data_dir");
  if (named.empty() || request.target.empty() || named == request.target) {
    return named.empty() ? request.target : named;
  }
  return fail(Code::kInvalidArgument, "DATA_DIR {} but --data_dir {}; give one of them",
              config::quoted(request.target), config::quoted(named));
}

/// --resume as an absolute path. Errors: not_found: main.py prints this and starts from zero.
Result<std::string> resume_folder(const frontend::Given& given) {
  const std::string value = given.text("resume");
  if (!given.has("resume") || value == "auto" || value == "best" || value == "never")
    return std::string();
  if (exists_as(value, true)) return absolute(value);
  if (exists_as(value, false)) {
    return fail_exit(Code::kInvalidArgument, Exit::kNoInput,
                     "--resume {}: a file; checkpoints are folders, `npu ckpt ls` lists them; "
                     "weights alone go to --pretrained",
                     config::quoted(value));
  }
  return fail_exit(Code::kNotFound, Exit::kNoInput,
                   "--resume: no checkpoint found at {}; `npu ckpt ls` lists them, auto takes the "
                   "run's newest",
                   config::quoted(value));
}

Result<std::string> weights_file(const frontend::Given& given) {
  const char* const flag = given.has("pretrained") ? "pretrained" : "pretrained_filepath";
  if (!given.has(flag)) return std::string();
  const std::string value = given.text(flag);
  if (exists_as(value, false)) return absolute(value);
  return fail_exit(Code::kNotFound, Exit::kNoInput,
                   "--{} {}: expected a safetensors file with torchvision's names; "
                   "docs/pretrained.md says how to make one",
                   flag, config::quoted(value));
}

Result<frontend::Translation> translate(const JobRequest& request,
                                        const frontend::LaunchEnvironment& env) {
  const bool tf = request.profile == "tf";
  // What is wrong with a flag goes before what is wrong with the folder.
  NPU_TRY_VOID(frontend::check_flags(request.given, tf));
  frontend::Surroundings around;
  around.all_devices = env.all_devices();
  NPU_TRY(around.resume_folder, resume_folder(request.given));
  NPU_TRY(around.pretrained_file, weights_file(request.given));
  if (!frontend::wants_synthetic(request.given)) {
    NPU_TRY(const std::string folder, data_folder(request));
    if (folder.empty()) {
      return fail(Code::kInvalidArgument,
                  "DATA_DIR is required: a folder with train/ and val/; --dummy does without");
    }
    NPU_TRY(around.data, frontend::look_at_data(folder));
  }
  return tf ? frontend::translate_tf(request.given, around)
            : frontend::translate_main_py(request.given, around);
}

/// `text` as a file that the ranks can open as long as this process lives.
Result<UniqueFd> text_in_memory(std::string_view text) {
  UniqueFd fd(::memfd_create("npu-job.yaml", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return fail_errno("keep the job in memory");
  NPU_TRY_VOID(write_all(fd.get(), std::as_bytes(std::span(text)), "the job in memory"));
  constexpr int kSeals = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) return fail_errno("seal the job in memory");
  return fd;
}

/// Reads the job, as a file or as what the flags stand for.
Result<void> read_job(const JobRequest& request, const frontend::LaunchEnvironment& env,
                      PreparedJob& out) {
  const bool flags = !request.given.empty() || !request.profile.empty();
  const bool is_file = exists_as(request.target, false);
  if (is_file && flags) {
    return fail(Code::kInvalidArgument,
                "{} is a job file; --{} goes with a data folder, use --set KEY=VALUE for a job",
                config::quoted(request.target),
                request.given.empty() ? "profile" : request.given.all().begin()->first);
  }
  if (!flags && request.target.empty()) {
    return fail(
        Code::kInvalidArgument,
        "JOB is required: a job file, or a data folder and main.py's flags; see `npu launch "
        "--help`");
  }
  if (!flags && !exists_as(request.target, true)) {
    NPU_TRY(out.job, config::load_job(request.target, request.overrides));
    out.file = request.target;
    out.text = config::print_job(out.job);
    return {};
  }
  NPU_TRY(frontend::Translation made, translate(request, env));
  NPU_TRY(out.job, config::load_job_text(made.yaml, "launch flags", request.overrides));
  NPU_TRY(out.memory, text_in_memory(made.yaml));
  out.file = fmt::format("/proc/{}/fd/{}", ::getpid(), out.memory.get());
  out.text = request.overrides.empty() ? made.yaml : config::print_job(out.job);
  const char* const word = out.job.model.pretrained ? "using pre-trained" : "creating";
  out.remarks = std::move(made.remarks);
  out.remarks.push_back(fmt::format("run '{}': 1 node x {} devices = {} ranks, one process each",
                                    out.job.name, out.job.world(), out.job.world()));
  out.remarks.push_back(fmt::format("=> {} model '{}'", word, out.job.model.arch));
  return {};
}

Result<void> check_placement(PreparedJob& out) {
  const std::string problem = config::placement_problem(out.job.devices);
  if (problem.empty() || out.job.placement == config::Placement::kOff) return {};
  if (out.job.placement == config::Placement::kStrict) {
    return fail_exit(Code::kFailedPrecondition, Exit::kBadConfig,
                     "placement: devices of the host: {}; or set placement: warn", problem);
  }
  out.remarks.push_back(
      fmt::format("warning: devices: {}; placement: off is silent about it", problem));
  return {};
}

}  // namespace

Result<PreparedJob> prepare_job(const JobRequest& request) {
  PreparedJob out;
  NPU_TRY(const auto env, frontend::launch_environment(environment));
  NPU_TRY_VOID(read_job(request, env, out));
  out.overrides = request.overrides;
  NPU_TRY(auto devices, env.host_devices(out.job.devices));
  if (devices != out.job.devices) {
    out.overrides.push_back(fmt::format("devices={}", fmt::join(devices, ",")));
    out.job.devices = std::move(devices);
  }
  out.remarks.insert(out.remarks.begin(), env.remarks.begin(), env.remarks.end());
  NPU_TRY_VOID(check_placement(out));
  return out;
}

}  // namespace npu::cli
