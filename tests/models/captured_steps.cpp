// Runs of a decoder (llm.h) that the caller captures once and replays, against runs by the host:
// equal bits, step by step, for runs of one token and of a few; taking tokens back between replays;
// replays past the end of the caches, which change nothing and are reported; two contexts side by
// side; host runs between replays. Prints "ok", or what differs.
//
//   captured_steps [WEIGHTS]
//
// TOKENS_DIM: the dimension that says how many tokens a run takes; -1 where each takes one. FEW:
// the tokens of a longer run that can be captured, too.
#include "llm.h"

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#if !defined(TOKENS_DIM)
#define TOKENS_DIM LLM_DIM_SEQUENCE_LENGTH
#endif
#if !defined(FEW)
#define FEW 3
#endif

namespace {

constexpr int kTokensDim = TOKENS_DIM; // -1: each run takes one
constexpr size_t kRow = size_t(LLM_VOCABULARY) * (LLM_LOGITS_BYTES / size_t(LLM_LOGITS_SIZE));
using Logits = std::vector<unsigned char>;

[[noreturn]] void fail(const char *what, long value) {
  std::printf("%s: %ld\n", what, value);
  std::exit(1);
}
void check(const char *what, long found, long expected) {
  if (found != expected)
    fail(what, found);
}
#define CUDA(call) check(#call, long(call), long(cudaSuccess))
#define OK(call) check(#call, call, LLM_OK)

int token_at(int position) { return (7 * position + 3) % LLM_VOCABULARY; }

/// A context with device memory for tokens and logits, and a stream.
struct Run {
  explicit Run(const llm_model *model) {
    OK(llm_context_create(model, &context));
    CUDA(cudaStreamCreate(&stream));
    CUDA(cudaMalloc(&tokens, LLM_INPUT_IDS_BYTES));
    CUDA(cudaMalloc(&logits, LLM_LOGITS_BYTES));
  }
  ~Run() {
    for (cudaGraphExec_t e : executables)
      (void)cudaGraphExecDestroy(e);
    (void)cudaFree(tokens);
    (void)cudaFree(logits);
    (void)cudaStreamDestroy(stream);
    llm_context_destroy(context);
  }
  Run(const Run &) = delete;
  Run &operator=(const Run &) = delete;

  void prompt(int count) {
    std::vector<int> all;
    for (int i = 0; i < count; ++i)
      all.push_back(token_at(i));
    OK(llm_run_tokens(context, all.data(), count, nullptr, nullptr, 0));
  }
  long length() {
    long n = -1;
    OK(llm_length(context, &n));
    return n;
  }
  int enqueue() {
    const void *inputs[] = {tokens};
    void *outputs[] = {logits};
    return llm_enqueue(context, inputs, outputs, stream);
  }
  void take(int count) {
    if (kTokensDim >= 0)
      OK(llm_set_dim(context, kTokensDim, count));
    OK(llm_prepare(context));
  }
  void write(int position, int count) {
    std::vector<long long> ids;
    for (int i = 0; i < count; ++i)
      ids.push_back(token_at(position + i));
    CUDA(cudaMemcpy(tokens, ids.data(), ids.size() * sizeof(long long), cudaMemcpyHostToDevice));
  }
  Logits read(int count) {
    CUDA(cudaStreamSynchronize(stream));
    Logits out(kRow * size_t(count));
    CUDA(cudaMemcpy(out.data(), logits, out.size(), cudaMemcpyDeviceToHost));
    return out;
  }
  /// The caller's own graph of a run of `count` tokens.
  cudaGraphExec_t capture(int count) {
    take(count);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    const int code = enqueue();
    CUDA(cudaStreamEndCapture(stream, &graph));
    OK(code);
    CUDA(cudaGraphInstantiate(&executable, graph, 0));
    CUDA(cudaGraphDestroy(graph));
    executables.push_back(executable);
    return executable;
  }
  Logits host(int position, int count) {
    take(count);
    write(position, count);
    OK(enqueue());
    return read(count);
  }
  Logits replay(cudaGraphExec_t graph, int position, int count) {
    write(position, count);
    CUDA(cudaGraphLaunch(graph, stream));
    return read(count);
  }

  llm_context *context = nullptr;
  cudaStream_t stream = nullptr;
  void *tokens = nullptr, *logits = nullptr;
  std::vector<cudaGraphExec_t> executables;
};

} // namespace

int main(int argc, char **argv) {
  llm_options options = LLM_OPTIONS_INIT;
  options.weights_path = argc > 1 ? argv[1] : LLM_WEIGHTS_FILE;
  llm_model *model = nullptr;
  OK(llm_model_open(&options, &model));
  const auto same = [](const char *what, const Logits &a, const Logits &b, long at) {
    if (a != b)
      fail(what, at);
  };
  {
    constexpr int kPrompt = 19, kFew = kTokensDim < 0 ? 1 : FEW;
    Run host(model), device(model), other(model);
    host.prompt(kPrompt);
    // Captured before there is anything in the caches, of this context and of another.
    cudaGraphExec_t one = device.capture(1), few = device.capture(kFew), others = other.capture(1);
    device.prompt(kPrompt);
    other.prompt(kPrompt - 5);
    int at = kPrompt;
    for (int i = 0; i < 4; ++i, ++at) {
      (void)other.replay(others, kPrompt - 5 + i, 1);
      same("a captured step differs", host.host(at, 1), device.replay(one, at, 1), at);
    }
    same("captured steps of few tokens differ", host.host(at, kFew), device.replay(few, at, kFew),
         at);
    at += kFew;
    check("the length behind replays", device.length(), at);
    check("the other context's length", other.length(), kPrompt - 5 + 4);
    // Taken back, where every carried value allows it, and by the host in between.
    const bool back = llm_set_length(host.context, at - 4) != LLM_UNSUPPORTED;
    if (back) {
      at -= 4;
      OK(llm_set_length(device.context, at));
      same("a step taken back differs", host.host(at, 1), device.replay(one, at, 1), at);
      ++at;
    }
    same("a step by the host differs", host.host(at, 1), device.host(at, 1), at);
    ++at;
    same("a step behind it differs", host.host(at, 1), device.replay(one, at, 1), at);
    ++at;
    // Until the caches are full, and beyond.
    for (; at < LLM_CAPACITY; ++at)
      same("a later step differs", host.host(at, 1), device.replay(one, at, 1), at);
    (void)device.replay(one, at, 1);
    (void)device.replay(few, at, kFew);
    device.take(1);
    check("a run behind full caches", device.enqueue(), LLM_STATE_FULL);
    check("the length of full caches", device.length(), LLM_CAPACITY);
    if (back) {
      at = LLM_CAPACITY - kFew + 1;
      OK(llm_set_length(host.context, at));
      OK(llm_set_length(device.context, at));
      (void)device.replay(few, at, kFew); // more than there is room for: nothing happens
      if (at < LLM_CAPACITY)
        same("full caches were changed", host.host(at, 1), device.replay(one, at, 1), at);
      check("the run behind a refused one", device.enqueue(), LLM_STATE_FULL);
    }
    OK(llm_reset(device.context));
    OK(llm_reset(host.context));
    same("a step from the beginning differs", host.host(0, 1), device.replay(one, 0, 1), 0);
    check("the length from the beginning", device.length(), 1);
  }
  llm_model_close(model);
  std::printf("ok\n");
  return 0;
}
