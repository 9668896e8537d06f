#include "job.h"

#include <stdlib.h>

#include "shape.h"

struct job *job_new(const struct tft_model *m)
{
    struct job *j = calloc(1, sizeof *j);
    struct item *end = calloc(1, sizeof *end + 1);
    if (!j || !end) {
        free(j);
        free(end);
        return NULL;
    }
    *end = (struct item){.job = j, .kind = ITEM_END};
    j->end = end;
    j->logprobs = -1;
    j->most = -1;
    form_none(&j->form, m);
    return j;
}

void job_free(struct job *j)
{
    if (!j)
        return;
    for (char **stop = j->stop; *stop; stop++)
        free(*stop);
    form_close(&j->form);
    shape_drop(j->shape);
    tft_chat_answer_close(j->answer.calls);
    free(j->answer.tag.p);
    free(j->answer.held.p);
    bias_free(&j->bias);
    steps_free(&j->steps);
    texts_free(j->texts);
    free(j->ids);
    free(j->end);
    free(j);
}
