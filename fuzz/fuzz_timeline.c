// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_timeline.c - any bytes as a test file: read or told, never a crash, and what was read keeps its promises.
 */
#include <stdlib.h>

#include "sim/timeline.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *told = NULL;
    size_t told_len;
    FILE *err = open_memstream(&told, &told_len);
    if (err == NULL)
        return 0;
    struct timeline *timeline = timeline_parse((const char *)data, size, "fuzz.test.yaml", err, size % 2 == 0);
    if (fclose(err) != 0)
        abort();
    /* A file is either read without a word or refused with one. */
    if ((timeline == NULL) != (told_len > 0))
        abort();
    if (timeline != NULL) {
        if ((timeline->contract.path == NULL) == (timeline->contract.text.at == NULL))
            abort();
        for (size_t i = 0; i < timeline->step_count; i++) {
            const struct timeline_step *step = &timeline->steps[i];
            uint64_t sum = 0;
            for (int outcome = 0; outcome < STEP_COUNTS; outcome++)
                sum += step->counts[outcome];
            if (step->times < 1 || step->at == WEIR_NO_TIME || (step->has_counts && sum != step->times)
                || (step->handle != TIMELINE_NO_HANDLE && step->handle >= timeline->handle_count)
                || (step->may_wait
                    && (step->handle == TIMELINE_NO_HANDLE || step->request.wait > WEIR_WAIT_MAX))
                || (step_decides(step->kind) && step->handle != TIMELINE_NO_HANDLE
                    && step->times > timeline->handle_count - step->handle))
                abort();
        }
    }
    timeline_free(timeline);
    free(told);
    return 0;
}
