/* /model: the conversation goes on with another model. */
#ifndef OTHER_MODEL_H
#define OTHER_MODEL_H

#include "conversation.h"

/* Opens the model of the file, gives it the messages, and closes the one before. Returns CLI_OK, or
   CLI_FAILED after an error message; nothing has changed then. */
int other_model(struct conversation *c, const char *path);

#endif
