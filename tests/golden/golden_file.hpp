// Reader of the *.golden text files: one record a line, the first word says what it is.
#pragma once

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "golden_inputs.hpp"

namespace npu::golden {

struct Golden {
  model::NetworkConfig config;
  model::SgdParams sgd;
  double loss64 = 0;                             // of the first step, computed in fp64
  std::vector<double> losses;                    // of each step, fp32
  std::map<std::string, Fingerprint> gradients;  // first step, fp64
  std::map<std::string, Fingerprint> state;      // after the last step, fp32
  std::vector<double> eval;                      // logits of the first samples after the last step
};

/// Empty losses when the file cannot be read.
[[nodiscard]] inline Golden read_golden(const std::string& path) {
  Golden golden;
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string kind;
    std::string name;
    words >> kind;
    double value = 0;
    Fingerprint print;
    if (kind == "net") {
      model::NetworkConfig& c = golden.config;
      words >> c.arch >> c.batch >> c.height >> c.channels >> c.num_classes;
      c.width = c.height;
    } else if (kind == "sgd") {
      model::SgdParams& s = golden.sgd;
      words >> s.lr >> s.momentum >> s.weight_decay >> s.nesterov;
    } else if (kind == "loss64") {
      words >> golden.loss64;
    } else if (kind == "loss" && words >> value) {
      golden.losses.push_back(value);
    } else if (kind == "gradient" && words >> name >> print.norm >> print.projection) {
      golden.gradients[name] = print;
    } else if (kind == "state" && words >> name >> print.norm >> print.projection) {
      golden.state[name] = print;
    } else if (kind == "eval") {
      while (words >> value) golden.eval.push_back(value);
    }
  }
  return golden;
}

}  // namespace npu::golden
