#pragma once

/// What the release build wrote into the program: JSON, or an empty text in any other build. It lives as long as the program.
const char *_Nonnull authgateway_build_record(void);
