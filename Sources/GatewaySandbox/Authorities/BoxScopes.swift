/// What a downscoped Box token may ask for, and which of it opens what.
enum BoxScopes {
    static let all: Set<String> = [
        "annotation_edit", "annotation_view_all", "annotation_view_self", "base_explorer", "base_picker",
        "base_preview", "base_sidebar", "base_upload", "item_delete", "item_download", "item_preview", "item_rename",
        "item_share", "item_upload", "root_readonly", "root_readwrite",
    ]

    static let listing: Set<String> = ["base_explorer", "base_picker", "root_readonly", "root_readwrite"]
    static let download: Set<String> = ["item_download", "root_readonly", "root_readwrite"]
    static let upload: Set<String> = ["base_upload", "item_upload", "root_readwrite"]
}
