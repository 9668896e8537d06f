#define _WIN32_WINNT 0x0602
#include "team.h"

#include <stdlib.h>
#include <windows.h>

/* CPUs of this process; 0: of several processor groups, or unknown. */
static DWORD_PTR own_cpus(void)
{
    DWORD_PTR own, all;
    return GetProcessAffinityMask(GetCurrentProcess(), &own, &all) ? own : 0;
}

int tft_port_affinity(void)
{
    int n = 0;
    DWORD_PTR own = own_cpus();
    if (!own)
        n = (int)GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
    for (; own; own &= own - 1)
        n++;
    return n ? n : 1;
}

/* Whether the process may run on a core. own: as own_cpus() returns it. */
static bool has_core(DWORD_PTR own, WORD group, const PROCESSOR_RELATIONSHIP *core)
{
    for (WORD i = 0; i < core->GroupCount; i++)
        if (!own || (core->GroupMask[i].Group == group && core->GroupMask[i].Mask & own))
            return true;
    return false;
}

/* Counts cores, and those of the highest class of performance, in a list of `size` bytes. Where
   cores differ, as on Linux (cpus.h), slow ones would delay the others. */
static void count(struct tft_cpus *out, const char *list, size_t size, DWORD_PTR own, WORD group)
{
    int cores = 0, fast = 0, highest = -1;
    for (size_t at = 0; at < size;) {
        const SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX *one = (const void *)(list + at);
        int class = (&one->Processor.Flags)[1]; /* EfficiencyClass, which old headers do not name */
        at += one->Size;
        if (!has_core(own, group, &one->Processor))
            continue;
        cores++;
        fast = class > highest ? 1 : fast + (class == highest);
        highest = class > highest ? class : highest;
    }
    if (!cores)
        return;
    out->cores = cores;
    out->fast = fast;
}

void tft_port_count_cpus(struct tft_cpus *out)
{
    int n = tft_port_affinity();
    DWORD size = 0;
    PROCESSOR_NUMBER here;
    *out = (struct tft_cpus){.allowed = n, .cores = n, .fast = n};
    GetLogicalProcessorInformationEx(RelationProcessorCore, NULL, &size);
    char *list = size ? malloc(size) : NULL;
    GetCurrentProcessorNumberEx(&here);
    if (list && GetLogicalProcessorInformationEx(RelationProcessorCore, (void *)list, &size))
        count(out, list, size, own_cpus(), here.Group);
    free(list);
}
