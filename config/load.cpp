// Order of work: parse, read the file's keys, apply overrides, check across keys, report all at
// once.
#include "config/load.hpp"

#include "config/schema.hpp"
#include "shm/base/fd.hpp"

namespace npu::config {

Result<std::string> read_config_file(const std::string& path) {
  auto text = read_file(path, kMaxFileBytes);
  if (!text && text.error().code == Code::kResourceExhausted) {
    text.error().exit = Exit::kBadConfig;  // too large to be one of our files
  }
  return text;
}

bool read_text(std::string_view text, std::span<const std::string> overrides,
               std::span<const Field> fields, Places& places, Diagnostics& out) {
  Node root;
  const bool parsed = parse_yaml(text, 0, root, out);
  if (parsed) read_fields(root, fields, places, out);
  int number = 0;
  for (const std::string& item : overrides) apply_override(item, ++number, fields, places, out);
  return parsed;
}

Result<void> finish(const Diagnostics& out, std::string_view tail) {
  if (out.empty()) return {};
  return fail_exit(Code::kInvalidArgument, Exit::kBadConfig, "{}", out.render(tail));
}

Result<Job> load_job(const std::string& path, std::span<const std::string> overrides) {
  NPU_TRY(const std::string text, read_config_file(path));
  return load_job_text(text, path, overrides);
}

Result<Job> load_job_text(std::string_view text, const std::string& file_name,
                          std::span<const std::string> overrides) {
  Job job;
  const std::vector<Field> fields = job_fields(job);
  Places places;
  Diagnostics out(file_name, text, overrides);
  if (read_text(text, overrides, fields, places, out)) check_job(job, places, out);
  NPU_TRY_VOID(finish(out, ". Keys and defaults: npu config schema"));
  return job;
}

}  // namespace npu::config
