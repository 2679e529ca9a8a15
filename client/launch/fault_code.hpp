// HCCL's error codes for the situations that exist here, with a cause and a remedy each: what users
// of the original know, search for, and have run books for.
#pragma once

#include <string>
#include <string_view>

namespace npu::client {

struct FaultCode {
  std::string_view code;   // "EI0002"
  std::string_view cause;  // a few words
  std::string_view remedy;
};

/// The code of a failure, nothing when HCCL has none for it. `code` as code_name() says it. Errors
/// that share both codes are told apart by words of their message; a test keeps the words of every
/// site.
[[nodiscard]] const FaultCode* fault_code(std::string_view code, int exit_code,
                                          std::string_view message) noexcept;

/// The rank that a message blames, as it is written there ("3" or "3,5"); empty when it names none.
[[nodiscard]] std::string suspect_ranks(std::string_view message);

/// "EI0002: cause; suspect rank 3; remedy", empty when there is no code. `blamed`: who it is when
/// the message names nobody, -1 for nobody.
[[nodiscard]] std::string fault_line(std::string_view code, int exit_code, std::string_view message,
                                     int blamed);

}  // namespace npu::client
