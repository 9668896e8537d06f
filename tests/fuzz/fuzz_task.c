/*
 * The input is a question of a task.
 *
 *      byte 0: the task; the rest is the line of the question
 */
#include "fuzz.h"

#include "tools/eval/task.h"

static void check_option(const struct task_option *o)
{
    MUST(o->context > 0 && o->context < o->text.n && o->length > 0 && o->length < o->text.n);
    touch(o->text.p, o->text.n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct task_item item = {0};
    char why[TASK_WHY] = "";
    if (!size)
        return 0;
    if (task_read(data[0] % (TASK_HELLASWAG + 1), (const char *)data + 1, size - 1, &item, why)) {
        MUST(item.right < item.n && item.n <= TASK_OPTIONS);
        for (size_t i = 0; i < item.n; i++)
            check_option(&item.option[i]);
    } else {
        MUST(*why && strlen(why) < TASK_WHY);
        for (const char *p = why; *p; p++)
            MUST(*p >= ' ' && *p <= '~');
    }
    task_free(&item);
    return 0;
}
