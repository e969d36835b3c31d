#ifndef SLUICE_COMMON_JOB_FILL_DEFAULT_H_
#define SLUICE_COMMON_JOB_FILL_DEFAULT_H_

// Fills FIELD of the message that MESSAGE points to where it is left out.
#define SLUICE_DEFAULT(message, field, value) \
  if (!(message)->has_##field()) (message)->set_##field(value)

// The same for an enumeration, where 0 means left out.
#define SLUICE_DEFAULT_ENUM(message, field, value) \
  if ((message)->field() == 0) (message)->set_##field(value)

#endif  // SLUICE_COMMON_JOB_FILL_DEFAULT_H_
