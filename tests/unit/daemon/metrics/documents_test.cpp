// What docs/ says of metrics: every name that the dashboard, the alerts and the manual use is exported, and every name
// that is exported is in the manual.
#include <gmock/gmock.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "tests/support/exposition.hpp"
#include "tests/unit/daemon/metrics/metrics_rig.hpp"

namespace npu::daemon {
namespace {

using nlohmann::json;
using testing::IsEmpty;

std::string document(const std::string& name) {
  std::ifstream file(NPU_DOCS "/" + name);
  EXPECT_TRUE(file) << name;
  std::ostringstream all;
  all << file.rdbuf();
  return all.str();
}

/// Names of metrics in a text; series of histograms by the name of their family.
std::set<std::string> names_in(const std::string& text) {
  static const std::regex name("\\b(npud|process)_[a-z0-9_]*[a-z0-9]\\b|\\b(machine_npu|npu_chip)_[a-z_]+");
  static const std::regex part("(_seconds)_(bucket|sum|count)$");
  std::set<std::string> names;
  for (std::sregex_iterator it(text.begin(), text.end(), name), end; it != end; ++it) {
    names.insert(std::regex_replace(it->str(), part, "$1"));
  }
  return names;
}

std::set<std::string> exported() {
  MetricsRig rig;
  rig.view.ascend = true;
  std::set<std::string> names;
  for (const auto& [name, family] : test::read_exposition(metrics_text(rig.view)).families) names.insert(name);
  return names;
}

std::set<std::string> without(const std::set<std::string>& names, const std::set<std::string>& known) {
  std::set<std::string> left;
  std::ranges::set_difference(names, known, std::inserter(left, left.end()));
  return left;
}

/// Every value of a key anywhere in a JSON document.
void collect(const json& at, const std::string& key, std::vector<std::string>& found) {
  if (at.is_object() && at.contains(key) && at[key].is_string()) found.push_back(at[key]);
  if (at.is_structured()) {
    for (const auto& child : at) collect(child, key, found);
  }
}

TEST(Documents, TheDashboardAsksForWhatThereIs) {
  const json board = json::parse(document("grafana-dashboard.json"), nullptr, false);
  ASSERT_FALSE(board.is_discarded());
  std::vector<std::string> queries;
  collect(board, "expr", queries);
  collect(board, "query", queries);
  ASSERT_GT(queries.size(), 15u);
  for (const std::string& query : queries) {
    EXPECT_THAT(without(names_in(query), exported()), IsEmpty()) << query;
    if (query != "prometheus") {
      EXPECT_FALSE(names_in(query).empty()) << query;
    }
  }
  std::set<int> ids;
  for (const auto& panel : board.at("panels")) {
    EXPECT_TRUE(ids.insert(panel.at("id").get<int>()).second) << "panel ids are unique";
    EXPECT_FALSE(panel.at("title").get<std::string>().empty());
    const auto& place = panel.at("gridPos");
    EXPECT_LE(place.at("x").get<int>() + place.at("w").get<int>(), 24);
  }
}

TEST(Documents, TheAlertsAskForWhatThereIs) {
  const YAML::Node file = YAML::Load(document("alerts.yml"));
  std::set<std::string> names;
  for (const auto& group : file["groups"]) {
    for (const auto& rule : group["rules"]) {
      const auto alert = rule["alert"].as<std::string>();
      EXPECT_TRUE(names.insert(alert).second) << alert;
      const auto expr = rule["expr"].as<std::string>();
      EXPECT_THAT(without(names_in(expr), exported()), IsEmpty()) << alert;
      const bool of_prometheus = expr.starts_with("up{");
      EXPECT_TRUE(of_prometheus || !names_in(expr).empty()) << alert;
      EXPECT_TRUE(rule["labels"]["severity"]) << alert;
      EXPECT_FALSE(rule["annotations"]["summary"].as<std::string>().empty()) << alert;
      EXPECT_FALSE(rule["annotations"]["description"].as<std::string>().empty()) << alert;
    }
  }
  EXPECT_TRUE(names.contains("NpuRankSilent"));
  EXPECT_TRUE(names.contains("NpuCheckpointOld"));
  EXPECT_TRUE(names.contains("NpuCollectivesFail"));
}

TEST(Documents, TheManualHasEveryNameAndNoOther) {
  const std::set<std::string> manual = names_in(document("operations.md"));
  EXPECT_THAT(without(exported(), manual), IsEmpty()) << "exported and not explained";
  std::set<std::string> unknown;
  for (const std::string& name : without(manual, exported())) {
    if (name.starts_with("npud_")) unknown.insert(name);
  }
  EXPECT_THAT(unknown, IsEmpty()) << "explained and not exported";
}

}  // namespace
}  // namespace npu::daemon
