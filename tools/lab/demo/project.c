#include "project.h"

#include "tool.h"

static int spell(const struct spm *student, const struct spm *teacher, int id, uint16_t *out)
{
    if (id == ID_BOS || id == ID_EOS) { /* the teacher ends a story by starting another one */
        out[0] = ID_EOS;
        return 1;
    }
    if (id < ID_PIECE) {
        out[0] = (uint16_t)id;
        return 1;
    }
    return spm_encode(student, teacher->text[id], teacher->len[id], out, NULL);
}

void projection_open(struct projection *p, const struct spm *teacher, const struct spm *student)
{
    size_t n = (size_t)teacher->n, room = n * (size_t)teacher->max_len, used = 0;
    p->n_student = student->n;
    p->first = take(n + 1, sizeof *p->first);
    p->pieces = take(room, sizeof *p->pieces);
    p->mass = take((size_t)student->n, sizeof *p->mass);
    for (size_t i = 0; i < n; i++) {
        used += (size_t)spell(student, teacher, (int)i, p->pieces + used);
        p->first[i + 1] = (int)used;
    }
}

/* Fills t with the TARGETS largest masses, sorted. */
static void select_largest(const float *mass, int n, float *top, struct target *t)
{
    int k = 0;
    float least = 0.5f / 65535; /* it would be stored as 0 */
    for (int i = 0; i < n; i++) {
        if (mass[i] <= least)
            continue;
        int at = k < TARGETS ? k++ : TARGETS - 1;
        for (; at > 0 && top[at - 1] < mass[i]; at--) {
            top[at] = top[at - 1];
            t->id[at] = t->id[at - 1];
        }
        top[at] = mass[i];
        t->id[at] = (uint16_t)i;
        if (k == TARGETS)
            least = top[TARGETS - 1];
    }
    for (int i = 0; i < k; i++)
        t->p[i] = (uint16_t)(top[i] * 65535 + 0.5f);
}

void projection_target(struct projection *p, const float *probability, const int *token, int n,
                       struct target *t)
{
    float top[TARGETS];
    memset(p->mass, 0, (size_t)p->n_student * sizeof *p->mass);
    for (int i = 0; i < n; i++)
        p->mass[p->pieces[p->first[token[i]]]] += probability[i];
    memset(t, 0, sizeof *t);
    select_largest(p->mass, p->n_student, top, t);
}

struct target sure_target(uint16_t token)
{
    return (struct target){.token = token, .id = {token}, .p = {65535}};
}
