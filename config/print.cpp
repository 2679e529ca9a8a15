// What is derived from the job table: the effective YAML, the schema listing, the hash ranks
// compare.
#include <fmt/format.h>
#include <xxhash.h>

#include "config/load.hpp"
#include "config/schema.hpp"

namespace npu::config {

std::string print_job(const Job& job) {
  Job copy = job;  // fields bind to a mutable object
  return print_fields(job_fields(copy));
}

std::string schema_text() {
  Job job;
  return schema_fields(job_fields(job));
}

uint64_t job_hash(const Job& job) {
  Job copy = job;
  std::vector<Field> fields = job_fields(copy);
  std::erase_if(fields, [](const Field& field) { return !field.hashed; });
  const std::string text = fmt::format("world: {}\n{}", job.world(), print_fields(fields));
  return XXH3_64bits(text.data(), text.size());
}

std::vector<std::string> unsupported(const Job& job) {
  std::vector<std::string> out;
  if (job.train.start_epoch) out.emplace_back("train.start_epoch");
  if (job.train.eval_every != 1) out.emplace_back("train.eval_every");
  if (job.train.target_acc1 != 0) out.emplace_back("train.target_acc1");
  if (job.train.evaluate) out.emplace_back("train.evaluate");
  if (job.schedule.kind == ScheduleKind::kLinear) out.emplace_back("schedule.kind: linear");
  if (job.schedule.kind == ScheduleKind::kExponential)
    out.emplace_back("schedule.kind: exponential");
  if (job.schedule.end_lr != 0) out.emplace_back("schedule.end_lr");
  if (!job.checkpoint.resume_override.empty()) out.emplace_back("checkpoint.resume_override");
  return out;
}

}  // namespace npu::config
