/* llama.cpp's own API. */
#ifndef SERVE_NATIVE_H
#define SERVE_NATIVE_H

#include "server.h"

void native_tokenize(struct exchange *x);
void native_detokenize(struct exchange *x);
void native_apply_template(struct exchange *x);
void native_props(struct exchange *x);
void native_metrics(struct exchange *x);
void native_completion(struct exchange *x);
void native_infill(struct exchange *x);
void native_slots(struct exchange *x); /* GET /slots */
void native_slot(struct exchange *x);  /* POST /slots/NUMBER?action=... */

#endif
