#ifndef SLUICE_CLI_REPORT_GOODPUT_H_
#define SLUICE_CLI_REPORT_GOODPUT_H_

#include <string>

#include "ps_server/coordinator/log/goodput.h"

// A run's goodput as text.
namespace sluice {

// For a person: a table of workers, and the sum in a sentence.
std::string DescribeGoodput(const Goodput& goodput);

// "goodput 83.4% (idle 12.0%, cancelled 4.6%)": the largest cause first, those
// of less than 0.05% left out. Empty where no worker has had a task.
std::string GoodputInShort(const WorkerSeconds& time);

// One JSON object and a newline.
std::string GoodputJson(const Goodput& goodput);

}  // namespace sluice

#endif  // SLUICE_CLI_REPORT_GOODPUT_H_
