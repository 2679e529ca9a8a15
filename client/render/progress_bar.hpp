// The one live line under a training run: where it is, how well it does, when it ends.
#pragma once

#include <cstdint>
#include <string>

#include "client/render/events.hpp"

namespace npu::client {

/// Seconds as "0:42", "12:05", "3:07:30"; "-:--" when they are not known.
[[nodiscard]] std::string format_eta(double seconds);

/// "epoch 1/2 [=======>      ] 120/235  loss 0.5123  acc 81.20  1932 img/s  ETA 0:42", at most
/// `columns` - 1 wide so that no terminal wraps it: the bar gives way first, then fields from the
/// right.
[[nodiscard]] std::string progress_line(const StepEvent& step, int epochs, int columns);

/// The same for a validation pass: "epoch 1/2 validate [==>  ] 3/10  loss 0.41  acc 85.10".
[[nodiscard]] std::string progress_line(const ValStepEvent& step, int epochs, int columns);

}  // namespace npu::client
