#include "common/command_line.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/exit_codes.h"

namespace sluice {
namespace {

void RefuseEmpty(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (absl::StartsWith(argument, "--") &&
        argument.find('=') == argument.size() - 1) {
      throw CLI::ArgumentMismatch(
          absl::StrCat(argument, " is followed by no value"));
    }
    if (argument.empty()) {
      throw CLI::ArgumentMismatch(
          absl::StrCat("the argument after ", argv[i - 1], " is empty"));
    }
  }
}

}  // namespace

std::optional<int> ParseCommandLine(int argc, char** argv, CLI::App* app) {
  try {
    RefuseEmpty(argc, argv);
    app->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app->exit(error) == 0 ? 0 : kExitUsage;
  }
  return std::nullopt;
}

}  // namespace sluice
