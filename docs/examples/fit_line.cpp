// Fits y = 3 x + 1 by gradient descent, data-parallel: each rank has its share of the samples, gradients are averaged
// over all ranks. The same program runs alone; then every call of npu::distribute succeeds and does nothing.
#include <cstdio>
#include <npu/distribute.hpp>
#include <vector>

namespace dist = npu::distribute;

namespace {

int complain(const dist::Status& status) {
  std::fprintf(stderr, "fit_line: %s\n", status.message().c_str());
  return 1;
}

}  // namespace

int main() {
  std::vector<double> xs;
  for (int i = 0; i < 1024; ++i) xs.push_back(i / 1024.0);
  auto [status, mine, batch] = dist::shard_and_rebatch_dataset(xs, xs.size());
  if (!status) return complain(status);

  std::vector<double> line = {0, 0};  // slope, offset
  status = dist::broadcast({line}, 0);
  if (!status) return complain(status);
  for (int step = 0; step < 2000; ++step) {
    std::vector<double> gradient = {0, 0};
    for (size_t i = 0; i < mine.size(); ++i) {
      const double error = line[0] * mine[i] + line[1] - (3 * mine[i] + 1);
      gradient[0] += 2 * error * mine[i] / static_cast<double>(mine.size());
      gradient[1] += 2 * error / static_cast<double>(mine.size());
    }
    status = dist::all_reduce({gradient}, dist::Reduction::kMean);
    if (!status) return complain(status);
    for (size_t i = 0; i < line.size(); ++i) line[i] -= 0.3 * gradient[i];
  }
  std::printf("y = %.3f x + %.3f, %zu samples here\n", line[0], line[1], mine.size());
  return 0;
}
