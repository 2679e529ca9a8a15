// The line with the bar: where a job is, when it ends.
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

/// "epoch 1/2 [===>   ] 120/235  51 %  ETA 0:21  job 0:42", fitted in the same way: the time the
/// epoch and the job still take. `job_s` seconds, negative when unknown.
[[nodiscard]] std::string epoch_line(const StepEvent& step, int epochs, double job_s, int columns);

/// The same for a validation pass: "epoch 1/2 validate [==>  ] 3/10  loss 0.41  acc 85.10".
[[nodiscard]] std::string progress_line(const ValStepEvent& step, int epochs, int columns);

}  // namespace npu::client
