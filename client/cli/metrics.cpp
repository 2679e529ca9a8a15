// npu metrics: what the daemon counts, once or over HTTP.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <memory>

#include "client/api/admin.hpp"
#include "client/cli/command.hpp"
#include "client/metrics/http_endpoint.hpp"

namespace npu::cli {
namespace {

constexpr const char* kAbout =
    "Show the daemon's metrics in Prometheus' text format, or serve them.\n"
    "\n"
    "Examples:\n"
    "  npu metrics | grep npud_run_loss\n"
    "  npu metrics --listen 127.0.0.1:9464    for Prometheus, until SIGTERM or SIGINT\n"
    "\n"
    "Runs of other users are not in it, unless root or the daemon's own user asks. What is served is what\n"
    "the user who serves may see, to everybody on this host. Names and alerts: docs/operations.md.\n";

struct Options {
  std::string socket;
  std::string listen;
};

Result<std::string> scrape(const Options& options) {
  NPU_TRY(const std::string socket, daemon_to_ask(options.socket));
  return client::read_metrics(socket);
}

Result<void> serve(const Options& options) {
  NPU_TRY(const client::ListenAddress address, client::parse_listen_address(options.listen));
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTERM);
  sigaddset(&stop, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &stop, nullptr);  // before the server's threads, which inherit it
  NPU_TRY(const auto endpoint, client::HttpEndpoint::start(address, [options] { return scrape(options); }));
  fmt::print(stderr, "npu metrics: serving http://{}/metrics\n", endpoint->address().text());
  int signal = 0;
  (void)sigwait(&stop, &signal);
  return {};
}

}  // namespace

void add_metrics(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("metrics", "Show the daemon's metrics, or serve them to Prometheus");
  command->description(kAbout);
  command->add_option("--socket", options->socket, "The daemon's socket")->type_name("PATH");
  command->add_option("--listen", options->listen, "Serve http://ADDRESS:PORT/metrics; loopback only")
      ->type_name("ADDRESS:PORT");
  command->callback([&chosen, options] {
    chosen = [options](char**) {
      const auto done = !options->listen.empty()
                            ? serve(*options)
                            : scrape(*options).and_then([](const std::string& text) { return print(text); });
      return done ? 0 : report_error("metrics", done.error());
    };
  });
}

}  // namespace npu::cli
