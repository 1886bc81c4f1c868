// Defines entries: the graphs of a decoder's module that compute what its first graph does where a
// run has few tokens. They carry the same states.
//
// An entry is called `rows8` where it takes up to 8 tokens. For a symbol S of the first graph it
// has a number, or a symbol of its own, `S.rows8`, with other bounds. Once a module is scheduled,
// the variants of each graph stand one after another, those of the first graph first.
#pragma once

#include "ir/Diagnostics.h"
#include "ir/IR.h"

namespace tenon {

/// Tokens of a step at most, whatever prompts are run in: graphs for so many have kernels for few
/// rows.
constexpr int64_t kStepTokens = 16;

/// Adds a copy of `from` to `module`; it may be another module's of the same context.
Graph &addCopy(Module &module, const Graph &from);

bool isEntry(const Graph &graph);
/// Removes the entries of a module that is not scheduled, for those who run the first graph alone.
void dropEntries(Module &module);

/// What `symbol` of the first graph is called in an entry.
std::string entrySymbol(llvm::StringRef symbol, llvm::StringRef entry);
/// What a symbol that is called like an entry's stands for; any other for itself.
llvm::StringRef firstSymbol(llvm::StringRef symbol);
/// Whether a symbol of the module is an entry's own and stands for one of the first graph.
bool isOfEntry(const Module &module, Dim symbol);

/// The tokens of a run that a graph of a decoder takes.
Dim tokensOf(const Graph &graph);

/// The graphs of a module of so many levels, by their numbers, in the order in which they say how
/// weights are stored: those for a step, that for the most tokens first, whose kernels' form serves
/// one token, too; then the others.
std::vector<size_t> orderOfWeights(const Module &module, size_t levels);

/// The graph, of the first level, that a run of so many tokens takes; without entries the first
/// one, whatever the number.
Graph &graphOfRun(Module &module, int64_t tokens);
/// The fewest tokens with which each graph is run, in ascending order; none where there are no
/// entries.
std::vector<int64_t> tokensOfRuns(const Module &module);
/// The same graph alone, in a module that is no decoder's.
std::unique_ptr<Module> aloneForRun(const Module &module, int64_t tokens);
/// Words for a graph: `up to 8 tokens (rows8)`; nothing where there are no entries.
std::string runTitle(const Graph &graph);

/// Whether entries take and give what the first graph does, for fewer tokens.
bool verifyEntries(const Module &module, Diagnostics &diagnostics);

} // namespace tenon
