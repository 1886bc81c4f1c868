/* A plugin of QEMU's translator that counts the instructions executed between two addresses.
 *
 *   -plugin libcount.so,begin=ADDRESS,end=ADDRESS,out=FILE[,part=ADDRESS]...
 *
 * Counting starts when the instruction at `begin` is reached and stops when that at `end` is; both
 * must be targets of branches (a function's entry, the place that it returns to). FILE receives a
 * line "run N" for each time that happened, N instructions; then, over all runs, a line "part
 * ADDRESS N" for each part of the run, which lasts from its first instruction until the next part
 * begins; and a line "ADDRESS N" for each instruction executed.
 *
 * Blocks of instructions are counted, not single ones: a block is left early only by exceptions, of
 * which there are none here. The interface below is version 1 of the plugin interface (QEMU 6 and
 * later), of which distributions ship no header. */
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t plugin_id;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum { CALLBACK_READS_NO_REGISTERS = 0 };

#define EXPORT __attribute__((visibility("default")))
EXPORT int qemu_plugin_version = 1;

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, void (*)(plugin_id, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, void (*)(unsigned, void *), int,
                                          void *);
void qemu_plugin_register_atexit_cb(plugin_id, void (*)(plugin_id, void *), void *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);

struct part {
  uint64_t address, instructions;
};

struct block {
  struct block *next;
  struct part *part; /* that begins here */
  uint64_t executed;
  size_t size;
  uint64_t address[];
};

static struct block *blocks;
static uint64_t begin, end, running, instructions;
static FILE *out;

enum { MAX_PARTS = 1024 };
static struct part parts[MAX_PARTS], before_parts, *current = &before_parts;
static int part_count;

static void on_block(unsigned cpu, void *data) {
  struct block *b = data;
  (void)cpu;
  if (b->address[0] == begin) {
    running = 1;
    instructions = 0;
    current = &before_parts;
  } else if (b->address[0] == end && running) {
    running = 0;
    fprintf(out, "run %" PRIu64 "\n", instructions);
  }
  if (b->part)
    current = b->part;
  if (running) {
    instructions += b->size;
    current->instructions += b->size;
    ++b->executed;
  }
}

static void on_translation(plugin_id id, struct qemu_plugin_tb *tb) {
  const size_t size = qemu_plugin_tb_n_insns(tb);
  struct block *b = malloc(sizeof *b + size * sizeof b->address[0]);
  size_t i;
  (void)id;
  if (!b)
    abort();
  b->next = blocks;
  b->part = NULL;
  b->executed = 0;
  b->size = size;
  for (i = 0; i < size; ++i)
    b->address[i] = qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, i));
  for (i = 0; i < (size_t)part_count; ++i)
    if (size && parts[i].address == b->address[0])
      b->part = &parts[i];
  blocks = b;
  qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, CALLBACK_READS_NO_REGISTERS, b);
}

static void on_end(plugin_id id, void *data) {
  const struct block *b;
  size_t i;
  (void)id;
  (void)data;
  for (i = 0; i < (size_t)part_count; ++i)
    fprintf(out, "part %" PRIx64 " %" PRIu64 "\n", parts[i].address, parts[i].instructions);
  for (b = blocks; b; b = b->next)
    for (i = 0; b->executed && i < b->size; ++i)
      fprintf(out, "%" PRIx64 " %" PRIu64 "\n", b->address[i], b->executed);
  fclose(out);
}

EXPORT int qemu_plugin_install(plugin_id id, const void *info, int count, char **arguments) {
  const char *file = NULL;
  int i;
  (void)info;
  for (i = 0; i < count; ++i) {
    if (!strncmp(arguments[i], "begin=", 6))
      begin = strtoull(arguments[i] + 6, NULL, 0);
    else if (!strncmp(arguments[i], "end=", 4))
      end = strtoull(arguments[i] + 4, NULL, 0);
    else if (!strncmp(arguments[i], "part=", 5) && part_count < MAX_PARTS)
      parts[part_count++].address = strtoull(arguments[i] + 5, NULL, 0);
    else if (!strncmp(arguments[i], "out=", 4))
      file = arguments[i] + 4;
  }
  out = file ? fopen(file, "w") : NULL;
  if (!out) {
    fprintf(stderr, "count: out=FILE is missing or cannot be written\n");
    return 1;
  }
  qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
  qemu_plugin_register_atexit_cb(id, on_end, NULL);
  return 0;
}
