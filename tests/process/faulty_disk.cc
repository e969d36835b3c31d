// A disk that fails, for the process tests: a library that LD_PRELOAD puts
// between a process and the C library. It needs no privileges and works as
// root. Its faults are in the file LIBRARY.faults beside the library, which is
// read again for every operation. So a test can change them while processes run
// (faulty_disk.py writes the file). Each line is one fault, and the first one
// that matches counts:
//
//   fail EIO read /run/checkpoints      reading under this path fails
//   fail ENOSPC write /run/commit_log   writing there fails
//   stall all /run                      waits until the line is gone
//   hide read /run/commit_log-2         opening it says that there is nothing,
//                                       and its folder does not list it: the
//                                       answer of a stale cache
//   in --shard=1 fail EIO read /run     only in processes with this argument
//
// `read`: opening for reading, read, stat, access, listing a folder. `write`:
// opening for writing, write, fsync, truncate, rename, link, mkdir, remove.
// `all`: both. A full disk (ENOSPC) does not fail fsync: it has room for what
// it took. A path matches everything that begins with it. Bytes that go
// through a FILE* (logs on stderr) and mmap are not covered.
//
// Nothing here allocates or locks, because any thread may be in it at any time.

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

namespace {

constexpr size_t kMaxPath = 4096;
constexpr size_t kMaxFaults = 8192;  // Bytes of the control file.

enum class Access { kRead, kWrite, kSync };

struct Name {
  const char* text;
  int number;
};
constexpr Name kErrors[] = {
    {"EACCES", EACCES},
    {"EIO", EIO},
    {"EMFILE", EMFILE},
    {"ENOENT", ENOENT},
    {"ENOSPC", ENOSPC},
    {"ENOTCONN", ENOTCONN},
    {"EROFS", EROFS},
    {"ESTALE", ESTALE},
    {"ETIMEDOUT", ETIMEDOUT},
    {"EDQUOT", EDQUOT},
    {"ENAMETOOLONG", ENAMETOOLONG},
};

// The C library's function of this name, instead of the one below.
template <typename Function>
Function* Real(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}
#define REAL(function) Real(&function, #function)

// Reads a whole small file as a string. Returns its length. Keeps errno,
// because callers examine it at the end of a folder.
size_t ReadAll(const char* path, char* to, size_t size) {
  const int before = errno;
  const long file = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
  size_t length = 0;
  while (file >= 0 && length + 1 < size) {
    const long got = syscall(SYS_read, file, to + length, size - 1 - length);
    if (got <= 0) break;
    length += static_cast<size_t>(got);
  }
  if (file >= 0) syscall(SYS_close, file);
  to[length] = '\0';
  errno = before;
  return length;
}

// "LIBRARY.faults". Empty until the constructor has run; until then nothing
// fails.
char control_file[kMaxPath] = {};

__attribute__((constructor)) void FindControlFile() {
  Dl_info library = {};
  dladdr(reinterpret_cast<void*>(&FindControlFile), &library);
  snprintf(control_file, sizeof(control_file), "%s.faults", library.dli_fname);
}

bool HasArgument(const char* argument) {
  char words[kMaxPath * 4];
  const size_t length = ReadAll("/proc/self/cmdline", words, sizeof(words));
  for (const char* word = words; word < words + length;
       word += strlen(word) + 1) {
    if (strcmp(word, argument) == 0) return true;
  }
  return false;
}

bool BeginsWith(const char* text, const char* prefix) {
  return strncmp(text, prefix, strlen(prefix)) == 0;
}

enum class What { kNothing, kFail, kStall, kHide };
struct Fault {
  What what = What::kNothing;
  int error = 0;
};

// Judges by one line of the control file, which it cuts into words.
Fault Judge(char* line, Access access, const char* path) {
  char* rest = nullptr;
  const char* word = strtok_r(line, " ", &rest);
  if (word != nullptr && strcmp(word, "in") == 0) {
    const char* argument = strtok_r(nullptr, " ", &rest);
    if (argument == nullptr || !HasArgument(argument)) return {};
    word = strtok_r(nullptr, " ", &rest);
  }
  if (word == nullptr) return {};
  Fault fault;
  if (strcmp(word, "fail") == 0) {
    fault = {What::kFail, EIO};
    const char* error = strtok_r(nullptr, " ", &rest);
    for (const Name& name : kErrors) {
      if (error != nullptr && strcmp(error, name.text) == 0) {
        fault.error = name.number;
      }
    }
  } else if (strcmp(word, "stall") == 0) {
    fault = {What::kStall, 0};
  } else if (strcmp(word, "hide") == 0) {
    fault = {What::kHide, ENOENT};
  }
  const char* accesses = strtok_r(nullptr, " ", &rest);
  const char* prefix = strtok_r(nullptr, " ", &rest);
  if (accesses == nullptr || prefix == nullptr) return {};
  const bool asked =
      strcmp(accesses, "all") == 0 ||
      strcmp(accesses, access == Access::kRead ? "read" : "write") == 0;
  if (access == Access::kSync && fault.error == ENOSPC) return {};
  return asked && BeginsWith(path, prefix) ? fault : Fault{};
}

Fault Lookup(Access access, const char* path) {
  char text[kMaxFaults];
  if (ReadAll(control_file, text, sizeof(text)) == 0) return {};
  char* rest = nullptr;
  for (char* line = strtok_r(text, "\n", &rest); line != nullptr;
       line = strtok_r(nullptr, "\n", &rest)) {
    const Fault fault = Judge(line, access, path);
    if (fault.what != What::kNothing) return fault;
  }
  return {};
}

// Whether the operation may go on; otherwise errno says why not.
bool MayGoOn(Access access, const char* path) {
  while (true) {
    const Fault fault = Lookup(access, path);
    if (fault.what == What::kNothing) return true;
    if (fault.what != What::kStall) {
      errno = fault.error;
      return false;
    }
    const timespec pause = {0, 10'000'000};
    syscall(SYS_nanosleep, &pause, nullptr);
  }
}

// `path` as an absolute path.
struct Absolute {
  explicit Absolute(const char* path, int folder = AT_FDCWD) {
    if (path[0] == '/') {
      snprintf(text, sizeof(text), "%s", path);
      return;
    }
    char link[64];
    snprintf(link, sizeof(link),
             folder == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d",
             folder);
    char from[kMaxPath];
    const long length = syscall(SYS_readlink, link, from, sizeof(from) - 1);
    from[length < 0 ? 0 : length] = '\0';
    snprintf(text, sizeof(text), "%s/%s", from, path);
  }
  char text[2 * kMaxPath];
};

bool PathMayGoOn(Access access, const char* path, int folder = AT_FDCWD) {
  return MayGoOn(access, Absolute(path, folder).text);
}

bool FileMayGoOn(Access access, int file) {
  char link[64];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
  char path[kMaxPath];
  const int before = errno;
  const long length = syscall(SYS_readlink, link, path, sizeof(path) - 1);
  errno = before;
  if (length <= 0 || path[0] != '/') return true;  // A socket or pipe.
  path[length] = '\0';
  return MayGoOn(access, path);
}

Access AccessOf(int flags) {
  return (flags & O_ACCMODE) == O_RDONLY && (flags & O_CREAT) == 0
             ? Access::kRead
             : Access::kWrite;
}

mode_t ModeIn(int flags, va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

// The next entry that is not hidden.
template <typename Entry>
Entry* NextEntry(Entry* (*read_folder)(DIR*), DIR* folder) {
  if (!FileMayGoOn(Access::kRead, dirfd(folder))) return nullptr;
  while (Entry* entry = read_folder(folder)) {
    const Absolute path(entry->d_name, dirfd(folder));
    if (Lookup(Access::kRead, path.text).what != What::kHide) return entry;
  }
  return nullptr;
}

}  // namespace

extern "C" {

#define SLUICE_OPEN(function)                           \
  int function(const char* path, int flags, ...) {      \
    va_list arguments;                                  \
    va_start(arguments, flags);                         \
    const mode_t mode = ModeIn(flags, arguments);       \
    va_end(arguments);                                  \
    if (!PathMayGoOn(AccessOf(flags), path)) return -1; \
    return REAL(function)(path, flags, mode);           \
  }
SLUICE_OPEN(open)
SLUICE_OPEN(open64)

#define SLUICE_OPENAT(function)                                 \
  int function(int folder, const char* path, int flags, ...) {  \
    va_list arguments;                                          \
    va_start(arguments, flags);                                 \
    const mode_t mode = ModeIn(flags, arguments);               \
    va_end(arguments);                                          \
    if (!PathMayGoOn(AccessOf(flags), path, folder)) return -1; \
    return REAL(function)(folder, path, flags, mode);           \
  }
SLUICE_OPENAT(openat)
SLUICE_OPENAT(openat64)

#define SLUICE_FOPEN(function)                                            \
  FILE* function(const char* path, const char* mode) {                    \
    const Access access =                                                 \
        strpbrk(mode, "wa+") == nullptr ? Access::kRead : Access::kWrite; \
    if (!PathMayGoOn(access, path)) return nullptr;                       \
    return REAL(function)(path, mode);                                    \
  }
SLUICE_FOPEN(fopen)
SLUICE_FOPEN(fopen64)

DIR* opendir(const char* path) {
  if (!PathMayGoOn(Access::kRead, path)) return nullptr;
  return REAL(opendir)(path);
}
dirent* readdir(DIR* folder) { return NextEntry(REAL(readdir), folder); }
dirent64* readdir64(DIR* folder) { return NextEntry(REAL(readdir64), folder); }

// Wraps an operation on an open file.
#define SLUICE_ON_FILE(result, function, access, parameters, arguments) \
  result function parameters {                                          \
    if (!FileMayGoOn(Access::access, file)) return -1;                  \
    return REAL(function) arguments;                                    \
  }
SLUICE_ON_FILE(ssize_t, read, kRead, (int file, void* to, size_t bytes),
               (file, to, bytes))
SLUICE_ON_FILE(ssize_t, pread, kRead,
               (int file, void* to, size_t bytes, off_t at),
               (file, to, bytes, at))
SLUICE_ON_FILE(ssize_t, pread64, kRead,
               (int file, void* to, size_t bytes, off64_t at),
               (file, to, bytes, at))
SLUICE_ON_FILE(ssize_t, write, kWrite,
               (int file, const void* from, size_t bytes), (file, from, bytes))
SLUICE_ON_FILE(ssize_t, writev, kWrite,
               (int file, const iovec* from, int count), (file, from, count))
SLUICE_ON_FILE(ssize_t, pwrite, kWrite,
               (int file, const void* from, size_t bytes, off_t at),
               (file, from, bytes, at))
SLUICE_ON_FILE(ssize_t, pwrite64, kWrite,
               (int file, const void* from, size_t bytes, off64_t at),
               (file, from, bytes, at))
SLUICE_ON_FILE(int, fsync, kSync, (int file), (file))
SLUICE_ON_FILE(int, fdatasync, kSync, (int file), (file))
SLUICE_ON_FILE(int, ftruncate, kWrite, (int file, off_t bytes), (file, bytes))
SLUICE_ON_FILE(int, ftruncate64, kWrite, (int file, off64_t bytes),
               (file, bytes))

// Wraps an operation on a path.
#define SLUICE_ON_PATH(function, access, parameters, arguments) \
  int function parameters {                                     \
    if (!PathMayGoOn(Access::access, path)) return -1;          \
    return REAL(function) arguments;                            \
  }
SLUICE_ON_PATH(stat, kRead, (const char* path, struct stat* to), (path, to))
SLUICE_ON_PATH(stat64, kRead, (const char* path, struct stat64* to), (path, to))
SLUICE_ON_PATH(lstat, kRead, (const char* path, struct stat* to), (path, to))
SLUICE_ON_PATH(lstat64, kRead, (const char* path, struct stat64* to),
               (path, to))
SLUICE_ON_PATH(access, kRead, (const char* path, int how), (path, how))
SLUICE_ON_PATH(mkdir, kWrite, (const char* path, mode_t mode), (path, mode))
SLUICE_ON_PATH(rmdir, kWrite, (const char* path), (path))
SLUICE_ON_PATH(unlink, kWrite, (const char* path), (path))
SLUICE_ON_PATH(remove, kWrite, (const char* path), (path))
SLUICE_ON_PATH(truncate, kWrite, (const char* path, off_t bytes), (path, bytes))

int rename(const char* from, const char* to) {
  if (!PathMayGoOn(Access::kWrite, from)) return -1;
  if (!PathMayGoOn(Access::kWrite, to)) return -1;
  return REAL(rename)(from, to);
}
int link(const char* from, const char* to) {
  if (!PathMayGoOn(Access::kWrite, to)) return -1;
  return REAL(link)(from, to);
}
int unlinkat(int folder, const char* path, int flags) {
  if (!PathMayGoOn(Access::kWrite, path, folder)) return -1;
  return REAL(unlinkat)(folder, path, flags);
}
int fstatat(int folder, const char* path, struct stat* to, int flags) {
  if (!PathMayGoOn(Access::kRead, path, folder)) return -1;
  return REAL(fstatat)(folder, path, to, flags);
}

}  // extern "C"
