/* Members of config.json that nothing has read. */
#ifndef IMPORT_UNREAD_H
#define IMPORT_UNREAD_H

#include "opts.h"
#include "work.h"

/* Fails if config.json's part about the text model has a member that was not read, although it may
   change what the model computes. Call this after everything else has been read. o->warn gets
   a line for each that is but a word. */
void import_refuse_unread(struct import *im, const struct import_opts *o);

#endif
