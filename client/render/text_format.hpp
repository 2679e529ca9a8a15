// Events as the lines people know from the PyTorch ImageNet example; pure text, no I/O.
#pragma once

#include <string>

#include "client/render/events.hpp"

namespace npu::client {

/// The header of a run, three or four lines without the last newline.
[[nodiscard]] std::string format_start(const StartEvent& start);

/// "Epoch: [e][ i/total]" and tab-separated meters "value (average)": Time, Data, Loss, Acc@1,
/// Acc@5, then Lr, Scale (when one is in use) and Img/s. Time and data in seconds, accuracy in
/// percent. Source: pytorch/examples imagenet/main.py, ProgressMeter and AverageMeter.
[[nodiscard]] std::string format_step(const StepEvent& step);

/// "Test: [ i/total]" with Time, Loss, Acc@1, Acc@5. Source: as format_step.
[[nodiscard]] std::string format_val_step(const ValStepEvent& step);

/// " *   Acc@1 x.xxx Acc@5 x.xxx" (when there was a validation) and what the epoch took.
[[nodiscard]] std::string format_epoch(const EpochEvent& epoch);

[[nodiscard]] std::string format_eval(const EvalEvent& event);
[[nodiscard]] std::string format_overflow(const OverflowEvent& overflow);
[[nodiscard]] std::string format_checkpoint(const CheckpointEvent& checkpoint);
[[nodiscard]] std::string format_restart(const RestartEvent& restart);
[[nodiscard]] std::string format_done(const DoneEvent& done);

/// "0-3,5,7" for {0,1,2,3,5,7}.
[[nodiscard]] std::string format_ids(const std::vector<int>& ids);

}  // namespace npu::client
