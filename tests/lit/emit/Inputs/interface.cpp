// Uses the C++ header of interface.tn, without exceptions.
#include "net.hpp"

#include <array>
#include <cstdio>
#include <vector>

static net::expected<net::context> open(net::model &model) {
  auto opened = net::model::open();
  if (!opened)
    return opened.error();
  model = std::move(*opened);
  return net::context::create(model);
}

int main() {
  net::model model;
  auto context = open(model);
  if (!context) {
    std::printf("%s\n", context.error().message());
    return 1;
  }
  std::vector<float> x(NET_X_SIZE, 3.0f);
  std::array<float, NET_Y_SIZE> y{};
  const net::inputs in{x};
  const net::outputs out{y};
  std::printf("set: %s\n", context->set_dim(net::dim::N, 2).message());
  std::printf("prepare: %s\n", context->prepare().message());
  std::printf("run: %s\n", context->run(in, out).message());
  std::printf("%ld rows of %g\n", context->output_dim(NET_Y_INDEX, 0), double(y[7]));
  std::printf("reset: %d\n", context->reset().ok());
  std::printf("threads: %d, %d\n", context->threads(), context->set_threads(2).code());

  net::context moved = std::move(*context);
  float few[4] = {};
  std::printf("moved: %s, too few: %s\n", moved.run(in, out).message(),
              moved.run(in, {few}).message());
  net::context none;
  std::printf("none: %s\n", none.run(in, out).message());
  net_options wrong = net::options();
  wrong.size = 1;
  std::printf("wrong: %s\n", net::model::open(wrong).error().message());
  return 0;
}
