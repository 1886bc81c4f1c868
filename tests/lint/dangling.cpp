// What dangling.query has to find, marked so, and near misses. Never linked.
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/Optional.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

struct Term {
  int factor = 1;
  llvm::SmallVector<std::string, 2> names;
  const llvm::SmallVector<std::string, 2> &get() const { return names; }
};
llvm::Optional<llvm::SmallVector<Term, 4>> parse(llvm::StringRef);
std::vector<int> numbers();
std::string text();
Term term();
Term *existing();
std::unique_ptr<Term> made();
Term &found(const std::string &);
void use(...);

void loops(std::map<std::string, std::vector<int>> &map, llvm::StringRef key) {
  for (const Term &t : *parse("x")) // dangling
    use(t.factor);
  for (const Term &t : parse("x").getValue()) // dangling
    use(t.factor);
  for (const auto &name : term().get()) // dangling
    use(name.size());
  for (const auto &name : made()->names) // dangling
    use(name.size());
  for (int x : llvm::reverse(numbers())) // dangling
    use(x);
  for (int x : llvm::makeArrayRef(numbers()).drop_front()) // dangling
    use(x);

  for (int x : numbers())
    use(x);
  for (const auto &name : term().names)
    use(name.size());
  for (const auto &name : existing()->get())
    use(name.size());
  for (int x : map[key.str()])
    use(x);
  for (int x : map.find(key.str())->second)
    use(x);
  const auto parsed = parse("x");
  for (const Term &t : *parsed)
    use(t.factor);
}

void variables() {
  const auto &terms = *parse("x");                          // dangling
  const Term &first = parse("x")->front();                  // dangling
  const std::string &name = parse("x")->front().names[0];   // dangling
  llvm::ArrayRef<int> all = numbers();                      // dangling
  llvm::StringRef trimmed = llvm::StringRef(text()).trim(); // dangling
  use(&terms, &first, name.size(), all.size(), trimmed.size());

  const std::string copied = parse("x")->front().names[0];
  const std::vector<int> &kept = numbers();
  llvm::ArrayRef<int> some = llvm::makeArrayRef(kept).drop_front();
  const std::string &alive = existing()->names[0];
  Term &other = found(text() + " of " + made()->names[0]);
  use(copied.size(), some.size(), alive.size(), &other);
}
