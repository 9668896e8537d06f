/* Windows 10 and later: older consoles do not know control sequences. */
#define _WIN32_WINNT 0x0a00
#include "system.h"

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <windows.h>

#include "cli.h"

/* ---- the console; its settings outlive the program */

static struct {
    HANDLE screen; /* or NULL: neither standard output nor standard error is a console */
    DWORD mode;
    UINT in, out;
} found;

static void restore_console(void)
{
    if (!found.screen)
        return;
    SetConsoleMode(found.screen, found.mode);
    SetConsoleOutputCP(found.out);
    SetConsoleCP(found.in);
}

static void prepare_console(void)
{
    static const DWORD streams[] = {STD_OUTPUT_HANDLE, STD_ERROR_HANDLE};
    for (int i = 0; i < 2 && !found.screen; i++) {
        HANDLE h = GetStdHandle(streams[i]);
        if (GetConsoleMode(h, &found.mode))
            found.screen = h;
    }
    if (!found.screen)
        return;
    found.in = GetConsoleCP();
    found.out = GetConsoleOutputCP();
    atexit(restore_console);
    SetConsoleCP(CP_UTF8);
    SetConsoleOutputCP(CP_UTF8);
    SetConsoleMode(found.screen, found.mode | ENABLE_PROCESSED_OUTPUT | ENABLE_WRAP_AT_EOL_OUTPUT |
                                     ENABLE_VIRTUAL_TERMINAL_PROCESSING);
    /* Otherwise the C library writes single bytes, and a console shows no parts of characters.
       cli_put flushes. */
    if (system_is_terminal(STDOUT_FILENO))
        setvbuf(stdout, NULL, _IOFBF, 4096);
}

/* ---- Ctrl-C. The system calls the handler in a thread of its own. */

static atomic_bool caught, interrupted;
static void (*before)(void);

static BOOL WINAPI on_event(DWORD event)
{
    bool stays = event == CTRL_C_EVENT && caught && !atomic_exchange(&interrupted, true);
    if (!stays) {
        if (before)
            before();
        restore_console();
    }
    return stays; /* FALSE: the next handler, the system's, ends the program */
}

void cli_catch_interrupts(void)
{
    interrupted = false;
    caught = true;
}

void cli_release_interrupts(void) { caught = false; }

void cli_before_interrupt(void (*f)(void)) { before = f; }

bool cli_interrupted(void) { return interrupted; }

/* ---- streams, paths */

void system_begin(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        _setmode(fd, _O_BINARY);
    prepare_console();
    SetConsoleCtrlHandler(on_event, TRUE);
}

/* isatty is true of NUL too. */
bool system_is_terminal(int fd)
{
    DWORD mode;
    return GetConsoleMode((HANDLE)_get_osfhandle(fd), &mode);
}

const char *system_program_path(const char *argv0)
{
    static char path[4096]; /* UTF-8, like all narrow strings because of tuffet.manifest */
    DWORD n = GetModuleFileNameA(NULL, path, sizeof path);
    if (!n || n == sizeof path)
        return argv0;
    for (char *p = path; (p = strchr(p, '\\'));)
        *p = '/';
    return path;
}

const char *system_temp_folder(void)
{
    static char path[MAX_PATH + 1];
    const char *folder = getenv("TMPDIR");
    if (folder && *folder)
        return folder;
    return GetTempPathA(sizeof path, path) ? path : ".";
}

bool system_disk_left(const char *path, uint64_t *bytes)
{
    ULARGE_INTEGER left = {0};
    char full[MAX_PATH], *name = NULL;
    bool known = GetFullPathNameA(path, MAX_PATH, full, &name) < MAX_PATH && name;
    if (known)
        *name = 0; /* the folder remains */
    known = known && GetDiskFreeSpaceExA(full, &left, NULL, NULL);
    *bytes = left.QuadPart;
    return known;
}

uint64_t system_memory(void)
{
    MEMORYSTATUSEX m = {.dwLength = sizeof m};
    return GlobalMemoryStatusEx(&m) ? m.ullTotalPhys : 0;
}

bool system_memory_left(uint64_t *bytes)
{
    MEMORYSTATUSEX m = {.dwLength = sizeof m};
    bool known = GlobalMemoryStatusEx(&m);
    *bytes = m.ullAvailPhys;
    return known;
}

bool system_nice(int n)
{
    return SetPriorityClass(GetCurrentProcess(),
                            n < 10 ? BELOW_NORMAL_PRIORITY_CLASS : IDLE_PRIORITY_CLASS);
}

int64_t system_file_size(FILE *f) { return system_size(_fileno(f)); }

int64_t system_size(int fd) { return _filelengthi64(fd); }

static bool has_room(char **line, size_t *room, size_t n)
{
    size_t more = n < 128 ? 128 : 2 * n;
    char *grown = n < *room ? *line : realloc(*line, more);
    if (!grown)
        return false;
    *room = n < *room ? *room : more;
    *line = grown;
    return true;
}

int64_t system_line(char **line, size_t *room, FILE *f)
{
    size_t n = 0;
    int c = 0;
    if (!has_room(line, room, 0))
        return -1;
    while (c != '\n' && (c = getc(f)) != EOF) {
        if (!has_room(line, room, n + 1))
            return -1;
        (*line)[n++] = (char)c;
    }
    (*line)[n] = 0;
    return n ? (int64_t)n : -1;
}

void *system_pages(size_t size)
{
    return VirtualAlloc(NULL, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}

void system_free_pages(void *p, size_t size)
{
    (void)size;
    VirtualFree(p, 0, MEM_RELEASE);
}

size_t system_page_size(void)
{
    SYSTEM_INFO system;
    GetSystemInfo(&system);
    return system.dwPageSize;
}

bool system_host_name(char *name, size_t room)
{
    DWORD n = (DWORD)room;
    return GetComputerNameExA(ComputerNameDnsHostname, name, &n);
}

bool system_has_stack(size_t bytes) /* the program's file says how much there is */
{
    (void)bytes;
    return true;
}

bool system_lock_memory(void)
{
    errno = ENOSYS;
    return false;
}

void system_wait(uint64_t ns) { Sleep((DWORD)(ns / 1000000)); }

double system_thread_seconds(void)
{
    FILETIME made, ended, kernel, user;
    if (!GetThreadTimes(GetCurrentThread(), &made, &ended, &kernel, &user))
        return NAN;
    ULARGE_INTEGER k = {.LowPart = kernel.dwLowDateTime, .HighPart = kernel.dwHighDateTime},
                   u = {.LowPart = user.dwLowDateTime, .HighPart = user.dwHighDateTime};
    return (double)(k.QuadPart + u.QuadPart) / 1e7;
}

static bool describe(const char *path, BY_HANDLE_FILE_INFORMATION *info)
{
    HANDLE h = CreateFileA(path, 0, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                           OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
    bool known = h != INVALID_HANDLE_VALUE && GetFileInformationByHandle(h, info);
    if (h != INVALID_HANDLE_VALUE)
        CloseHandle(h);
    return known;
}

bool system_is_same_file(const char *a, const char *b)
{
    BY_HANDLE_FILE_INFORMATION x, y;
    return describe(a, &x) && describe(b, &y) && x.dwVolumeSerialNumber == y.dwVolumeSerialNumber &&
           x.nFileIndexHigh == y.nFileIndexHigh && x.nFileIndexLow == y.nFileIndexLow;
}

const char *system_file_name(const char *path)
{
    const char *name = path;
    for (const char *p = path; *p; p++)
        if (strchr("/\\:", *p))
            name = p + 1;
    return name;
}

bool system_find_file(const char *path, struct system_file *out)
{
    enum { TICKS = 10000000 };                    /* of 100 ns in a second */
    static const int64_t from_1601 = 11644473600; /* seconds to 1970 */
    BY_HANDLE_FILE_INFORMATION i;
    if (!describe(path, &i))
        return false;
    const FILETIME *t = &i.ftLastWriteTime;
    uint64_t ticks = (uint64_t)t->dwHighDateTime << 32 | t->dwLowDateTime;
    *out = (struct system_file){.device = i.dwVolumeSerialNumber,
                                .number = (uint64_t)i.nFileIndexHigh << 32 | i.nFileIndexLow,
                                .size = (uint64_t)i.nFileSizeHigh << 32 | i.nFileSizeLow,
                                .seconds = (int64_t)(ticks / TICKS) - from_1601,
                                .ns = (int64_t)(ticks % TICKS) * 100};
    return true;
}
