// Walks a YAML tree along a field table. Every finding is reported, none stops the walk.
#include "config/schema.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace npu::config {
namespace {

std::string_view section_of(std::string_view path) {
  const size_t dot = path.find('.');
  return dot == std::string_view::npos ? std::string_view{} : path.substr(0, dot);
}

std::string_view leaf_of(std::string_view path) {
  const size_t dot = path.find('.');
  return dot == std::string_view::npos ? path : path.substr(dot + 1);
}

const Field* find_field(std::span<const Field> fields, std::string_view path) {
  const auto it = std::ranges::find(fields, path, &Field::path);
  return it == fields.end() ? nullptr : &*it;
}

bool is_section(std::span<const Field> fields, std::string_view name) {
  return std::ranges::any_of(fields, [&](const Field& f) { return section_of(f.path) == name; });
}

// Suggests a key of the same section first, then the same word in another section.
std::string key_hint(std::span<const Field> fields, std::string_view section,
                     std::string_view key) {
  std::vector<std::string_view> here;
  for (const Field& field : fields) {
    const std::string_view owner = section_of(field.path);
    if (owner == section) here.push_back(leaf_of(field.path));
    if (section.empty() && !owner.empty()) here.push_back(owner);
  }
  if (const auto near = closest(key, here); !near.empty()) {
    return fmt::format("did you mean '{}'?", near);
  }
  for (const Field& field : fields) {
    if (leaf_of(field.path) == key) return fmt::format("did you mean '{}'?", field.path);
  }
  return {};
}

void assign_at(const Field& field, const Node& value, Place place, Places& places,
               Diagnostics& out) {
  const size_t before = out.size();
  assign(field, value, out);
  const std::string path(field.path);
  places.written[path] = place;
  if (out.size() != before) places.refused.insert(path);
}

class Reader {
 public:
  Reader(std::span<const Field> fields, Places& places, Diagnostics& out)
      : fields_(fields), places_(places), out_(out) {}

  void read_map(const Node& map, std::string_view section) {
    const std::string prefix = section.empty() ? "" : fmt::format("{}: ", section);
    std::map<std::string_view, Place> seen;
    for (size_t i = 0; i < map.items.size(); ++i) {
      const Node& key = map.keys[i];
      if (key.kind != Node::Kind::kScalar) {
        out_.add(key.place, prefix + "a key must be one plain word");
        continue;
      }
      const auto [first, fresh] = seen.emplace(key.text, key.place);
      if (!fresh) {
        out_.add(key.place, fmt::format("{}duplicate key {}, first given at {}", prefix,
                                        quoted(key.text), out_.place_text(first->second)));
        continue;
      }
      read_entry(key, map.items[i], section, prefix);
    }
  }

 private:
  void read_entry(const Node& key, const Node& value, std::string_view section,
                  const std::string& prefix) {
    const std::string path = section.empty() ? key.text : fmt::format("{}.{}", section, key.text);
    if (const Field* field = find_field(fields_, path)) {
      // A dotted key at the top would name a field too, but then it escapes the duplicate check.
      if (section.empty() && key.text.find('.') != std::string::npos) {
        out_.add(key.place, fmt::format("{}: dotted keys are for --set; nest it below '{}:'", path,
                                        section_of(path)));
        return;
      }
      assign_at(*field, value, value.place, places_, out_);
      return;
    }
    if (section.empty() && is_section(fields_, key.text)) {
      if (value.kind == Node::Kind::kNull) return;  // "train:" with nothing below: all defaults
      if (value.kind != Node::Kind::kMap) {
        out_.add(value.place, fmt::format("{}: expected keys below it, such as '{}: ...'", key.text,
                                          first_key(key.text)));
        return;
      }
      read_map(value, key.text);
      return;
    }
    out_.add(key.place, fmt::format("{}unknown key {}", prefix, quoted(key.text)),
             key_hint(fields_, section, key.text));
  }

  std::string_view first_key(std::string_view section) const {
    for (const Field& field : fields_) {
      if (section_of(field.path) == section) return leaf_of(field.path);
    }
    return {};
  }

  std::span<const Field> fields_;
  Places& places_;
  Diagnostics& out_;
};

}  // namespace

void read_fields(const Node& root, std::span<const Field> fields, Places& places,
                 Diagnostics& out) {
  if (root.kind == Node::Kind::kNull) return;
  if (root.kind != Node::Kind::kMap) {
    out.add(root.place, "expected 'key: value' lines");
    return;
  }
  Reader(fields, places, out).read_map(root, {});
}

void apply_override(const std::string& text, int number, std::span<const Field> fields,
                    Places& places, Diagnostics& out) {
  const Place place{.source = number};
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    out.add(place, "expected KEY=VALUE, such as train.epochs=1");
    return;
  }
  const std::string path = text.substr(0, equals);
  const Field* field = find_field(fields, path);
  if (field == nullptr) {
    if (is_section(fields, path)) {
      out.add(place, fmt::format("'{}' is a section; set one of its keys", path));
      return;
    }
    std::vector<std::string_view> paths;
    for (const Field& candidate : fields) paths.push_back(candidate.path);
    const std::string_view near = closest(path, paths);
    out.add(place, fmt::format("unknown key {}", quoted(path)),
            near.empty() ? key_hint(fields, section_of(path), leaf_of(path))
                         : fmt::format("did you mean '{}'?", near));
    return;
  }
  Node value;
  if (!parse_yaml(std::string_view(text).substr(equals + 1), number, value, out)) return;
  if (value.place.source == 0) value.place = place;  // an empty value has no node
  assign_at(*field, value, place, places, out);
}

std::string print_fields(std::span<const Field> fields) {
  std::string out;
  std::string_view open_section;
  for (const Field& field : fields) {
    const std::string_view section = section_of(field.path);
    if (section != open_section && !section.empty()) out += fmt::format("{}:\n", section);
    open_section = section;
    out += fmt::format("{}{}: {}\n", section.empty() ? "" : "  ", leaf_of(field.path),
                       value_text(field));
  }
  return out;
}

std::vector<KeyDoc> key_docs(std::span<const Field> fields) {
  std::vector<KeyDoc> docs;
  for (const Field& field : fields) {
    const std::string value = value_text(field);
    docs.push_back({.key = std::string(field.path),
                    .type = type_text(field),
                    .standard = value == "\"\"" ? "" : value,
                    .about = std::string(field.doc),
                    .choices = {field.choices.begin(), field.choices.end()}});
  }
  return docs;
}

std::string schema_fields(std::span<const Field> fields) {
  std::string out;
  for (const KeyDoc& doc : key_docs(fields)) {
    out += fmt::format("{}\n    {}; default {}\n    {}\n", doc.key, doc.type,
                       doc.standard.empty() ? "none" : doc.standard, doc.about);
  }
  return out;
}

}  // namespace npu::config
