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
  if (job.data.format == DataFormat::kImageFolder) out.emplace_back("data.format: imagefolder");
  if (job.data.format == DataFormat::kCifar10) out.emplace_back("data.format: cifar10");
  if (job.data.augment == Augment::kImagenet) out.emplace_back("data.augment: imagenet");
  return out;
}

}  // namespace npu::config
