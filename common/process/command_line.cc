#include "common/process/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/process/exit_codes.h"

namespace sluice {
namespace {

// Ends a word that CLI11 would take for something else; no argument has it.
constexpr char kEndOfWord = '\0';

// Of the arguments behind the first one, the program's name.
void RefuseEmpty(absl::Span<const std::string> arguments) {
  for (size_t i = 1; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (absl::StartsWith(argument, "--") &&
        argument.find('=') == argument.size() - 1) {
      throw CLI::ArgumentMismatch(
          absl::StrCat(argument, " is followed by no value"));
    }
    if (argument.empty()) {
      throw CLI::ArgumentMismatch(
          absl::StrCat("the argument after ", arguments[i - 1], " is empty"));
    }
  }
}

// CLI11 makes two words of "[1,2]".
void ProtectLists(absl::Span<std::string> words) {
  for (std::string& word : words) {
    if (absl::StartsWith(word, "[")) word.push_back(kEndOfWord);
  }
}

std::string Unprotected(std::string word) {
  if (!word.empty() && word.back() == kEndOfWord) word.pop_back();
  return word;
}

}  // namespace

void AddProgram(CLI::App* app, const std::string& description,
                std::vector<std::string>* words) {
  app->add_option("COMMAND", *words, description)
      ->transform(Unprotected, /*validator_description=*/"");
}

std::optional<int> ParseCommandLine(int argc, char** argv, CLI::App* app) {
  std::vector<std::string> arguments(argv, argv + argc);
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  const size_t own = dashes - arguments.begin();
  try {
    RefuseEmpty(absl::MakeConstSpan(arguments).first(own));
    ProtectLists(absl::MakeSpan(arguments).subspan(own));
    // CLI11 begins with the last one.
    app->parse(std::vector<std::string>(arguments.rbegin(),
                                        std::prev(arguments.rend())));
  } catch (const CLI::RequiredError& error) {
    // The word that is missing is mostly there, misspelt.
    const std::vector<std::string> strange = app->remaining(/*recurse=*/true);
    if (strange.empty()) {
      app->exit(error);
    } else {
      app->exit(CLI::ExtrasError({strange.front()}));
    }
    return kExitUsage;
  } catch (const CLI::ParseError& error) {
    return app->exit(error) == 0 ? 0 : kExitUsage;
  }
  return std::nullopt;
}

}  // namespace sluice
