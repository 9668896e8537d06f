/* Windows: no command is started. chat --tools also needs jansson, which no build for Windows has;
   bench --compare says that it cannot. */
#include "process.h"

#include <errno.h>

void process_run(const struct process *p, struct process_result *r)
{
    (void)p;
    *r = (struct process_result){.end = PROCESS_NOT_STARTED, .code = ENOSYS};
}
