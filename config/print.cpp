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

std::vector<KeyDoc> job_keys() {
  Job job;
  return key_docs(job_fields(job));
}

uint64_t job_hash(const Job& job) {
  Job copy = job;
  std::vector<Field> fields = job_fields(copy);
  std::erase_if(fields, [](const Field& field) { return !field.hashed; });
  const std::string text = fmt::format("world: {}\n{}", job.world(), print_fields(fields));
  return XXH3_64bits(text.data(), text.size());
}

std::vector<Setting> settings(const Job& job) {
  Job copy = job;
  std::vector<Setting> all;
  for (const Field& field : job_fields(copy)) {
    all.push_back({std::string(field.path), value_text(field)});
  }
  return all;
}

Result<void> apply_settings(Job& job, std::span<const Setting> settings, const std::string& what) {
  Job changed = job;
  const std::vector<Field> fields = job_fields(changed);
  std::vector<std::string> overrides;
  for (const Setting& s : settings) overrides.push_back(s.key + "=" + s.value);
  Places places;
  Diagnostics out(what, {}, overrides);
  int number = 0;
  for (const std::string& text : overrides) apply_override(text, ++number, fields, places, out);
  places.written.try_emplace("name");  // the job was loaded, so it has one
  if (out.empty()) check_job(changed, places, out);
  NPU_TRY_VOID(finish(out, ""));
  job = std::move(changed);
  return {};
}

}  // namespace npu::config
