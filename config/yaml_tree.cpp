// Builds the tree from yaml-cpp's events; the only file that sees yaml-cpp and its exceptions.
// The event interface is used because YAML::Node hides duplicate keys and expands aliases.
#include "config/yaml_tree.hpp"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <sstream>

namespace npu::config {
namespace {

class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(int source, Node& root, Diagnostics& out) : source_(source), root_(root), out_(out) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ == 2) out_.add(place(mark), "a second document begins here; expected one");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    check_anchor(mark, anchor);
    Node node;
    node.place = place(mark);
    attach(std::move(node));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    out_.add(place(mark), "aliases ('*name') are not accepted; write the value out");
    Node node;
    node.place = place(mark);
    attach(std::move(node));
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check_anchor(mark, anchor);
    check_tag(mark, tag);
    Node node;
    node.kind = Node::Kind::kScalar;
    node.quoted = tag == "!";
    node.text = value;
    node.place = place(mark);
    node.place.length = static_cast<int>(value.size()) + (node.quoted ? 2 : 0);
    attach(std::move(node));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(Node::Kind::kList, mark, tag, anchor);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(Node::Kind::kMap, mark, tag, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  [[nodiscard]] Place place(const YAML::Mark& mark) const {
    return Place{source_, mark.line + 1, mark.column + 1, 1};  // yaml-cpp counts from 0
  }

  void check_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor != 0) {
      out_.add(place(mark), "anchors ('&name') are not accepted; write the value out");
    }
  }

  void check_tag(const YAML::Mark& mark, const std::string& tag) {
    if (tag.empty() || tag == "?" || tag == "!") return;
    out_.add(place(mark), "tag " + quoted(tag) + " is not accepted; write the plain value");
  }

  void open(Node::Kind kind, const YAML::Mark& mark, const std::string& tag,
            YAML::anchor_t anchor) {
    check_anchor(mark, anchor);
    check_tag(mark, tag);
    if (skipped_ > 0 || stack_.size() >= kMaxDepth) {
      if (skipped_++ == 0) {
        out_.add(place(mark), "nested deeper than " + std::to_string(kMaxDepth) + " levels");
      }
      return;
    }
    Node node;
    node.kind = kind;
    node.place = place(mark);
    stack_.push_back(std::move(node));
  }

  void close() {
    if (skipped_ > 0) {
      if (--skipped_ == 0) attach(Node{});  // keeps keys and values paired
      return;
    }
    Node node = std::move(stack_.back());
    stack_.pop_back();
    attach(std::move(node));
  }

  void attach(Node node) {
    if (skipped_ > 0) return;
    if (stack_.empty()) {
      if (documents_ <= 1) root_ = std::move(node);
      return;
    }
    Node& parent = stack_.back();
    const bool is_key =
        parent.kind == Node::Kind::kMap && parent.keys.size() == parent.items.size();
    (is_key ? parent.keys : parent.items).push_back(std::move(node));
  }

  int source_;
  Node& root_;
  Diagnostics& out_;
  std::vector<Node> stack_;
  size_t skipped_ = 0;  // open collections below the depth limit
  int documents_ = 0;
};

}  // namespace

bool parse_yaml(std::string_view text, int source, Node& root, Diagnostics& out) {
  root = Node{};
  if (text.size() > kMaxFileBytes) {
    out.add(Place{.source = source},
            "larger than 1 MiB (" + std::to_string(text.size()) + " bytes); not read");
    return false;
  }
  if (text.find('\0') != std::string_view::npos) {
    out.add(Place{.source = source}, "contains a zero byte; expected YAML text");
    return false;
  }
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    TreeBuilder builder(source, root, out);
    // Twice, not until the end: yaml-cpp 0.7 stands still on a stray ',' and would go on for ever.
    if (parser.HandleNextDocument(builder)) (void)parser.HandleNextDocument(builder);
  } catch (const YAML::Exception& e) {
    out.add(Place{source, e.mark.line + 1, e.mark.column + 1, 1}, "not valid YAML: " + e.msg);
    return false;
  }
  return true;
}

}  // namespace npu::config
