/* Windows: --tools also needs jansson, which no build for Windows has, so no code calls this. */
#include "process.h"

#include <errno.h>

void process_run(const struct process *p, struct process_result *r)
{
    (void)p;
    *r = (struct process_result){.end = PROCESS_NOT_STARTED, .code = ENOSYS};
}
