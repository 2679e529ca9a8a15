// Fuzzes the YAML of jobs and of the daemon, and --set overrides. What is accepted must print as text
// that loads back to the same. The first byte chooses: a job, the daemon's settings, or a good job
// with the text as its override.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "config/daemon.hpp"
#include "config/load.hpp"

namespace {

void check(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "yaml_fuzz: %s\n", what.c_str());
  std::abort();
}

void check_job(const npu::Result<npu::config::Job>& job) {
  if (!job) {
    check(!job.error().message.empty(), "refused without a word");
    return;
  }
  const std::string text = npu::config::print_job(*job);
  const auto again = npu::config::load_job_text(text, "again.yaml");
  check(again.has_value(), "printed, and refused: " + text);
  check(npu::config::print_job(*again) == text, "printed, and loaded otherwise: " + text);
  check(npu::config::job_hash(*again) == npu::config::job_hash(*job), "another hash: " + text);
}

void check_daemon(const npu::Result<npu::config::DaemonConfig>& config) {
  if (!config) return;
  const std::string text = npu::config::print_daemon_config(*config);
  const auto again = npu::config::load_daemon_text(text, "again.yaml");
  check(again.has_value(), "printed, and refused: " + text);
  check(npu::config::print_daemon_config(*again) == text, "printed, and loaded otherwise: " + text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] == 'd') {
    check_daemon(npu::config::load_daemon_text(text, "npud.yaml"));
  } else if (data[0] == 's') {
    const std::string overrides[] = {text};
    check_job(npu::config::load_job_text("name: a\n", "job.yaml", overrides));
  } else {
    check_job(npu::config::load_job_text(text, "job.yaml"));
  }
  return 0;
}
