#include <stddef.h>

/// The built-in presets: one YAML document, made of the files in `presets`.
///
/// - Parameter length: Takes the number of bytes. They live as long as the program.
const unsigned char *_Nonnull authgateway_presets(size_t *_Nonnull length);
