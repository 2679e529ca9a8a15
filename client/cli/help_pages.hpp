// Manual pages: templates in docs/man with marks such as @commands@, filled with what the code's
// own tables say. The result is scdoc(5) text.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "client/cli/help_tree.hpp"
#include "shm/base/error.hpp"

namespace npu::cli {

struct HelpFacts {
  HelpCommand program;
  std::span<const HelpOption> daemon_options;
};

/// Replaces the marks, each alone in its line, and @version@ anywhere. Errors: data_loss naming an
/// unknown mark.
[[nodiscard]] Result<std::string> fill_page(std::string_view page, const HelpFacts& facts);

}  // namespace npu::cli
