#include "editor.h"

const struct editor *editor_open(bool keep)
{
    (void)keep;
    return NULL;
}
