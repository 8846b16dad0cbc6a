// SPDX-License-Identifier: Apache-2.0
/*
 * story.h - telling a step that failed, on play->out.
 */
#ifndef WEIR_SIM_STORY_H
#define WEIR_SIM_STORY_H

#include "sim/outcome.h"
#include "sim/play.h"

/* Tell it. The player is closed, before and after: it plays the beginning once more. */
enum player_result story_tell(struct play *play, const struct timeline *timeline, size_t index,
                              const struct outcome *came);

#endif
