// Defines the functions of a decoder behind the C interface: tokens in, logits out, generation, and
// taking tokens back. They run the program in pieces of as many tokens as it takes at once, and
// know nothing of the target: a machine runs it on host memory.
//
//   bool valid()                      there is a context
//   index_t get(int dim)              a run-time dimension of the next run
//   int set(int dim, index_t value)
//   int reset()
//   int run(const void *const *inputs, void *logits, byte_range wanted)
//                                     leaves at least these bytes of the logits there
//   unsigned char *memory()           the context's: decoder_form::bytes of it
//   static constexpr bool draws       whether it can draw tokens where it runs the program; then
//   static constexpr int most_stops   how many tokens may end that, at most
//   int generate(const drawing &)     runs of one token each, from the logits in `row` on
#ifndef TENON_RUNTIME_COMMON_DECODER_H
#define TENON_RUNTIME_COMMON_DECODER_H

#include "common/decoder_state.h"
#include "common/sampling.h"
#include "common/status_codes.h"

namespace tenon {

/// What a program's decoder functions know of it, whose one output are logits. `Token`: the element
/// of its input; `Logit`: that of its logits; `LastLogits`: these are of a run's last token alone;
/// `Inputs`: how many there are.
template <class Token, class Logit, bool LastLogits, int Inputs> struct decoder_form {
  using token = Token;
  using logit = Logit;
  static constexpr bool last_logits = LastLogits;
  static constexpr int inputs = Inputs;
  /// Rows of logits that are computed token by token, at most.
  static constexpr int single_rows = 16;

  int tokens;        // the input
  int length, count; // run-time dimensions; count is -1 where a run takes one token
  int piece;         // tokens of a run, at most
  long capacity, vocabulary;
  bool shortens; // every carried value is a cache that may be shortened

  constexpr size_t row_bytes() const { return size_t(vocabulary) * sizeof(Logit); }
  constexpr size_t token_bytes() const { return (size_t(piece) * sizeof(Token) + 63) / 64 * 64; }
  constexpr size_t logit_bytes() const { return row_bytes() * size_t(LastLogits ? 1 : piece); }
  /// Of a context: what is known of the last run, its tokens, its logits.
  constexpr size_t bytes() const { return decoder_state::room + token_bytes() + logit_bytes(); }
};

struct byte_range {
  size_t begin, end;
};

/// What a machine needs to draw tokens and append them without the host.
template <class Sampling> struct drawing {
  const Sampling *how;
  long position, vocabulary;
  int count; // of tokens, at most
  int token_input;
  const void *const *inputs; // the others
  void *row;                 // the last logits, and then those of the last run
  size_t row_bytes;
  int *tokens, *made; // what was appended before a stop token
  bool *ended;        // by one: what runs behind it left cannot be used
};

template <class Form, class Machine> class decoder {
  enum status {
    TENON_STATUS_CODES(TENON_STATUS_ENUMERATOR) TENON_DECODER_STATUS_CODES(TENON_STATUS_ENUMERATOR)
  };
  using Token = typename Form::token;
  using Logit = typename Form::logit;

public:
  decoder(const Form &form, Machine machine) : form_(form), machine_(machine) {}

  int length(long *out) {
    if (!machine_.valid() || !out)
      return invalid_argument;
    *out = long(machine_.get(form_.length));
    return ok;
  }

  int set_length(long length) {
    if (!machine_.valid() || length < 0)
      return invalid_argument;
    const long now = long(machine_.get(form_.length));
    if (length > now)
      return invalid_argument;
    if (length == now)
      return ok;
    if (length == 0)
      return machine_.reset();
    return form_.shortens ? machine_.set(form_.length, index_t(length)) : int(unsupported);
  }

  int run(const int *tokens, int count, const void *const *inputs, void *logits, int rows) {
    if (!machine_.valid() || count < 0 || (count > 0 && !tokens) || rows < 0 || rows > count ||
        (rows > 0 && !logits) || (Form::last_logits && rows > Form::single_rows) ||
        (Form::inputs > 1 && !inputs))
      return invalid_argument;
    for (int i = 0; i < count; ++i)
      if (tokens[i] < 0 || tokens[i] >= form_.vocabulary)
        return invalid_argument;
    if (count > form_.capacity - long(machine_.get(form_.length)))
      return state_full;
    unsigned char *out = static_cast<unsigned char *>(logits);
    // Where only a run's last token has logits, those that are wanted besides take runs of their
    // own.
    const int together = Form::last_logits && rows > 1 ? count - rows : count;
    for (int at = 0; at < count;) {
      const int left = at < together ? together - at : 1;
      const int now = left < form_.piece ? left : form_.piece;
      // Rows from `count - rows` on, of those that this piece gives.
      const int given = Form::last_logits ? 1 : now, first = at + now - given;
      const int skipped = count - rows > first ? count - rows - first : 0;
      const int code = run_piece(tokens + at, now, inputs, skipped);
      if (code != ok)
        return code;
      at += now;
      if (skipped < given) {
        const size_t bytes = size_t(given - skipped) * form_.row_bytes();
        memcpy(out, row(skipped), bytes);
        out += bytes;
      }
    }
    return ok;
  }

  template <class Sampling>
  int generate(const Sampling *how, int count, const void *const *inputs, int *tokens, int *made) {
    if (!machine_.valid() || !how || count < 0 || (count > 0 && !tokens) || !made ||
        how->stop_count < 0 || (how->stop_count > 0 && !how->stop))
      return invalid_argument;
    *made = 0;
    if constexpr (Machine::draws) {
      bool ended = false;
      const int code = generate_there(*how, count, inputs, tokens, *made, ended);
      if (code != ok || ended)
        return code;
    }
    for (; *made < count; ++*made) {
      const long position = long(machine_.get(form_.length));
      if (!has_logits())
        return no_logits;
      const int next = draw_token(row(state().last_row), form_.vocabulary, *how, position);
      for (int i = 0; i < how->stop_count; ++i)
        if (how->stop[i] == next)
          return ok;
      const int code = run(&next, 1, inputs, nullptr, 0);
      if (code != ok)
        return code;
      tokens[*made] = next;
    }
    return ok;
  }

private:
  decoder_state &state() { return *reinterpret_cast<decoder_state *>(machine_.memory()); }
  Token *token_room() { return reinterpret_cast<Token *>(machine_.memory() + decoder_state::room); }
  Logit *row(int i) {
    unsigned char *const rows = machine_.memory() + decoder_state::room + form_.token_bytes();
    return reinterpret_cast<Logit *>(rows) + size_t(i) * size_t(form_.vocabulary);
  }

  bool has_logits() {
    return state().last_row >= 0 && state().length == long(machine_.get(form_.length));
  }

  /// As many of `count` tokens as the caches have room for, drawn by the machine. Runs go on behind
  /// a stop token before anybody knows of it: they are taken back, and the last token before it is
  /// appended once more, for its logits.
  template <class Sampling>
  int generate_there(const Sampling &how, int count, const void *const *inputs, int *tokens,
                     int &made, bool &ended) {
    const long position = long(machine_.get(form_.length)), room = form_.capacity - position;
    const int most = room < count ? int(room) : count;
    if (most < 2 || !has_logits() || (Form::inputs > 1 && !inputs) ||
        (how.stop_count > 0 && !form_.shortens) || how.stop_count > Machine::most_stops)
      return ok; // one by one
    if (form_.count >= 0)
      if (const int code = machine_.set(form_.count, 1); code != ok)
        return code;
    const decoder_state before = state();
    state().last_row = -1;
    const int code = machine_.generate(
        form_, drawing<Sampling>{&how, position, form_.vocabulary, most, form_.tokens, inputs,
                                 row(before.last_row), form_.row_bytes(), tokens, &made, &ended});
    if (code != ok)
      return code;
    if (!ended) {
      state() = {before.last_row, position + made};
      return ok;
    }
    const int kept = made > 0 ? made - 1 : 0;
    if (const int taken = machine_.set(form_.length, index_t(position + kept)); taken != ok)
      return taken;
    if (made > 0)
      return run_piece(tokens + kept, 1, inputs, 0);
    state() = before;
    return ok;
  }

  /// Rows of logits before `first` are not wanted, but the last always is: a token may be drawn
  /// from it.
  int run_piece(const int *tokens, int count, const void *const *inputs, int first) {
    for (int i = 0; i < count; ++i)
      token_room()[i] = Token(tokens[i]);
    if (form_.count >= 0) {
      const int code = machine_.set(form_.count, count);
      if (code != ok)
        return code;
    }
    const void *given[Form::inputs];
    for (int i = 0; i < Form::inputs; ++i)
      given[i] = i == form_.tokens ? token_room() : inputs[i];
    const int last = Form::last_logits ? 0 : count - 1;
    state().last_row = -1;
    const byte_range wanted{size_t(first < last ? first : last) * form_.row_bytes(),
                            size_t(last + 1) * form_.row_bytes()};
    const int code = machine_.run(given, row(0), wanted);
    if (code != ok)
      return code;
    state() = {last, long(machine_.get(form_.length))};
    return ok;
  }

  const Form &form_;
  Machine machine_;
};

} // namespace tenon

#endif
