#include "daemon/collectives/wait_cycle.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "daemon/collectives/describe.hpp"

namespace npu::daemon {
namespace {

/// A complete operation: the head of a group, or a matched pair.
struct Node {
  Group* group = nullptr;
  Pair pair;
  std::vector<Pending*> entries;
  enum class State : uint8_t { kNew, kOpen, kDone } state = State::kNew;
};

class Search {
 public:
  Search(GroupTable& groups, PairMatcher& pairs, StreamQueues& queues) : queues_(queues) {
    for (const auto& group : groups.slots()) {
      if (group == nullptr || group->current != nullptr || !group->matcher.head_complete())
        continue;
      Node node{.group = group.get(), .pair = {}, .entries = {}};
      const Gathering& g = group->matcher.head();
      node.entries.assign(g.by_member.begin(), g.by_member.begin() + group->size);
      nodes_.push_back(std::move(node));
    }
    groups_ = nodes_.size();
    for (const Pair& pair : pairs.matched()) {
      nodes_.push_back({.group = nullptr, .pair = pair, .entries = {pair.send, pair.recv}});
    }
    for (size_t i = 0; i < nodes_.size(); ++i) {
      for (Pending* entry : nodes_[i].entries) entry->mark = static_cast<uint32_t>(i);
    }
  }

  [[nodiscard]] WaitCycle run() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].state == Node::State::kNew && visit(i)) return cycle();
    }
    return {};
  }

 private:
  /// The node that `entry` belongs to; -1 if that operation is not complete or not its
  /// communicator's head, in which case its own obstacle will be found from there.
  [[nodiscard]] int node_of(const Pending& entry) const {
    // A mark may be of an earlier search. Not looked for in all nodes: a rank could make that so
    // many, and so often, that other runs would wait for it.
    if (entry.mark < nodes_.size()) {
      const auto& entries = nodes_[entry.mark].entries;
      if (std::find(entries.begin(), entries.end(), &entry) != entries.end())
        return static_cast<int>(entry.mark);
    }
    if (shm::op_is_pairwise(static_cast<shm::Op>(entry.s.op))) return -1;
    // A later operation of a communicator waits for its head.
    for (size_t i = 0; i < groups_; ++i) {
      if (nodes_[i].group->id == entry.s.communicator) return static_cast<int>(i);
    }
    return -1;
  }

  /// Depth first; true when path_ ends in a node that is on it already. Recursion is at most as
  /// deep as there are complete operations: 64 heads and 1024 pairs.
  [[nodiscard]] bool visit(size_t i) {
    nodes_[i].state = Node::State::kOpen;
    path_.push_back({i, nullptr});
    for (Pending* entry : nodes_[i].entries) {
      if (queues_.first(*entry)) continue;
      for (Pending* before = &queues_.front(*entry); before != nullptr;
           before = queues_.next_of_batch(*before)) {
        const int to = node_of(*before);
        if (to < 0 || nodes_[static_cast<size_t>(to)].state == Node::State::kDone) continue;
        path_.back().waiter = entry;
        const auto next = static_cast<size_t>(to);
        if (nodes_[next].state == Node::State::kOpen) {
          closing_ = next;
          return true;
        }
        if (visit(next)) return true;
      }
    }
    path_.pop_back();
    nodes_[i].state = Node::State::kDone;
    return false;
  }

  [[nodiscard]] WaitCycle cycle() const {
    WaitCycle found;
    auto at = std::find_if(path_.begin(), path_.end(),
                           [this](const Step& step) { return step.node == closing_; });
    found.text = "cyclic wait, no rank is late: ";
    for (auto step = at; step != path_.end(); ++step) {
      const Node& node = nodes_[step->node];
      const bool last = step + 1 == path_.end();
      const Node& next = nodes_[last ? closing_ : (step + 1)->node];
      found.text += fmt::format("{} waits in stream {} of rank {} behind {}{}",
                                describe(*step->waiter), step->waiter->s.stream, step->waiter->rank,
                                describe(*next.entries[0]), last ? "" : ", and ");
      if (node.group != nullptr) found.groups.push_back(node.group);
      if (node.group == nullptr) found.pairs.push_back(node.pair);
    }
    found.text += "; submit them in one order on every rank, or on different streams";
    return found;
  }

  struct Step {
    size_t node;
    const Pending* waiter;
  };
  StreamQueues& queues_;
  std::vector<Node> nodes_;  // groups first
  size_t groups_ = 0;
  std::vector<Step> path_;
  size_t closing_ = 0;
};

}  // namespace

WaitCycle find_wait_cycle(GroupTable& groups, PairMatcher& pairs, StreamQueues& queues) {
  return Search(groups, pairs, queues).run();
}

}  // namespace npu::daemon
