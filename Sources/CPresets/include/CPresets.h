#include <stddef.h>

// The bytes of all live as long as the program. `length` takes their number.

/// The built-in presets: one YAML document, made of the files in `presets`.
const unsigned char *_Nonnull authgateway_presets(size_t *_Nonnull length);

/// `gateway.yaml` of the repository.
const unsigned char *_Nonnull authgateway_starter(size_t *_Nonnull length);

/// `sandbox.yaml` of the repository.
const unsigned char *_Nonnull authgateway_sandbox(size_t *_Nonnull length);

/// `schema/keys.json` of the repository: what `config explain --json` prints.
const unsigned char *_Nonnull authgateway_config_keys(size_t *_Nonnull length);
