// What there is to say about the keys of a configuration file, for manual pages and completion.
#pragma once

#include <string>
#include <vector>

namespace npu::config {

struct KeyDoc {
  std::string key;       // "train.epochs"
  std::string type;      // "integer 1..100000"
  std::string standard;  // the default as YAML; empty if there is none
  std::string about;
  std::vector<std::string> choices;  // closed sets of words only
};

/// In the order of the tables.
[[nodiscard]] std::vector<KeyDoc> job_keys();
[[nodiscard]] std::vector<KeyDoc> daemon_keys();

}  // namespace npu::config
