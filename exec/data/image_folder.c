/* A folder of pictures. */
#include "exec/data/image_folder.h"

#include "base/list.h"
#include "base/order.h"
#include "base/random.h"
#include "exec/data/image.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_PATH = 4096 };

typedef CLEAVE_LIST(const char *) name_list;
typedef CLEAVE_LIST(cleave_picture) picture_list;

/* ---- listing ----------------------------------------------------------------------------------
 */

static bool is_folder(const char *path) {
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

static bool is_picture(const char *name) {
    const char *point = strrchr(name, '.');
    return point != NULL && (strcasecmp(point, ".jpg") == 0 || strcasecmp(point, ".jpeg") == 0 ||
                             strcasecmp(point, ".png") == 0);
}

/* Names in a folder, sorted; `folders`: of folders in it, else of pictures. */
static cleave_status list_names(const char *path, bool folders, cleave_arena *arena,
                                name_list *names, cleave_error *error) {
    char full[MOST_PATH];
    DIR *opened = opendir(path);
    if (opened == NULL)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: %s", path, strerror(errno));
    bool has_room = true;
    names->n = 0;
    for (struct dirent *entry; has_room && (entry = readdir(opened)) != NULL;) {
        int n = snprintf(full, sizeof full, "%s/%s", path, entry->d_name);
        if (entry->d_name[0] == '.' || n >= (int)sizeof full ||
            !(folders ? is_folder(full) : is_picture(entry->d_name)))
            continue;
        const char *name = cleave_arena_string(arena, entry->d_name);
        has_room = name != NULL && CLEAVE_LIST_PUSH(names, name);
    }
    closedir(opened);
    CLEAVE_SORT(names->items, names->n, cleave_order_strings);
    return has_room ? CLEAVE_OK : cleave_fail_memory(error, "listing images");
}

/* The path of a file of a class, as long as there is room. */
static void path_of(const cleave_image_folder *folder, int32_t class, const char *name,
                    char *path) {
    snprintf(path, MOST_PATH, "%s/%s%s%s", folder->path, folder->classes[class],
             name[0] != '\0' ? "/" : "", name);
}

static cleave_status add_pictures(const cleave_image_folder *folder, int32_t class,
                                  const name_list *names, picture_list *pictures,
                                  cleave_error *error) {
    char path[MOST_PATH];
    struct stat about;
    for (int32_t i = 0; i < names->n; i++) {
        path_of(folder, class, names->items[i], path);
        if (stat(path, &about) != 0)
            return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: %s", path, strerror(errno));
        const cleave_picture picture = {names->items[i],
                                        class,
                                        {(int64_t)about.st_size, (int64_t)about.st_mtim.tv_sec,
                                         (int64_t)about.st_mtim.tv_nsec}};
        if (S_ISREG(about.st_mode) && !CLEAVE_LIST_PUSH(pictures, picture))
            return cleave_fail_memory(error, "listing images");
    }
    return CLEAVE_OK;
}

static cleave_status list_classes(cleave_image_folder *folder, cleave_arena *arena,
                                  picture_list *pictures, name_list *names, cleave_error *error) {
    char path[MOST_PATH];
    for (int32_t c = 0; c < folder->n_classes; c++) {
        int64_t before = pictures->n;
        path_of(folder, c, "", path);
        CLEAVE_TRY(list_names(path, false, arena, names, error));
        CLEAVE_TRY(add_pictures(folder, c, names, pictures, error));
        if (pictures->n == before)
            return cleave_fail(error, CLEAVE_BAD_INPUT,
                               "%s: a class without an image (.jpg, .jpeg, .png)", path);
    }
    return CLEAVE_OK;
}

static cleave_status copy_list(const void *items, int64_t n, size_t size, cleave_arena *arena,
                               void *copy, cleave_error *error) {
    void *copied = cleave_arena_alloc(arena, (size_t)n, size);
    if (copied == NULL)
        return cleave_fail_memory(error, "listing images");
    if (n > 0)
        memcpy(copied, items, (size_t)n * size);
    memcpy(copy, &copied, sizeof copied);
    return CLEAVE_OK;
}

cleave_status cleave_image_folder_list(const char *path, cleave_arena *arena,
                                       cleave_image_folder *folder, cleave_error *error) {
    cleave_image_folder listed = {.path = cleave_arena_string(arena, path)};
    name_list names = {0};
    picture_list pictures = {0};
    if (listed.path == NULL)
        return cleave_fail_memory(error, "listing images");
    cleave_status status = list_names(path, true, arena, &names, error);
    listed.n_classes = names.n;
    if (status == CLEAVE_OK && (names.n == 0 || names.n > CLEAVE_MOST_IMAGE_CLASSES))
        status = cleave_fail(error, CLEAVE_BAD_INPUT,
                             "%s: has %d folders, of which each is to be a class", path, names.n);
    if (status == CLEAVE_OK)
        status =
            copy_list(names.items, names.n, sizeof *names.items, arena, &listed.classes, error);
    if (status == CLEAVE_OK)
        status = list_classes(&listed, arena, &pictures, &names, error);
    if (status == CLEAVE_OK)
        status = copy_list(pictures.items, pictures.n, sizeof *pictures.items, arena,
                           &listed.pictures, error);
    listed.n = pictures.n;
    CLEAVE_LIST_FREE(&names);
    CLEAVE_LIST_FREE(&pictures);
    if (status == CLEAVE_OK)
        *folder = listed;
    return status;
}

cleave_status cleave_image_folder_check_same(const cleave_image_folder *a,
                                             const cleave_image_folder *b, cleave_error *error) {
    for (int32_t c = 0; c < a->n_classes || c < b->n_classes; c++) {
        const char *in_a = c < a->n_classes ? a->classes[c] : "none";
        const char *in_b = c < b->n_classes ? b->classes[c] : "none";
        if (c >= a->n_classes || c >= b->n_classes || strcmp(in_a, in_b) != 0)
            return cleave_fail(error, CLEAVE_BAD_INPUT,
                               "%s and %s have other classes: class %d is %s there and %s here",
                               a->path, b->path, c, in_a, in_b);
    }
    return CLEAVE_OK;
}

/* ---- reading ----------------------------------------------------------------------------------
 */

static int open_picture(const cleave_image_folder *folder, int64_t i, char *path) {
    const cleave_picture *picture = &folder->pictures[i];
    path_of(folder, picture->class, picture->name, path);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static cleave_status read_file(const cleave_picture *picture, int descriptor, const char *path,
                               uint8_t **file, cleave_error *error) {
    CLEAVE_TRY(cleave_file_stamp_check(&picture->stamp, descriptor, path, error));
    if (picture->stamp.bytes > CLEAVE_MOST_IMAGE_BYTES)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: %lld bytes are too many for an image",
                           path, (long long)picture->stamp.bytes);
    uint8_t *read = malloc((size_t)picture->stamp.bytes + 1);
    if (read == NULL)
        return cleave_fail_memory(error, "reading an image");
    cleave_status status =
        cleave_file_read_at(descriptor, path, 0, read, (size_t)picture->stamp.bytes, error);
    if (status == CLEAVE_OK)
        *file = read;
    else
        free(read);
    return status;
}

cleave_status cleave_image_folder_read(const cleave_image_folder *folder, int64_t i,
                                       const int64_t shape[3], float *values, cleave_error *error) {
    const cleave_picture *picture = &folder->pictures[i];
    char path[MOST_PATH];
    uint8_t *file = NULL;
    cleave_image image;
    int descriptor = open_picture(folder, i, path);
    if (descriptor < 0)
        return cleave_fail(error, CLEAVE_FAILED, "%s: %s", path, strerror(errno));
    cleave_status status = read_file(picture, descriptor, path, &file, error);
    close(descriptor);
    CLEAVE_TRY(status);
    status =
        cleave_image_decode(file, (size_t)picture->stamp.bytes, path, (int)shape[0], &image, error);
    free(file);
    CLEAVE_TRY(status);
    status = cleave_image_fit(&image, shape[1], shape[2], values, error);
    cleave_image_free(&image);
    return status;
}

void cleave_image_folder_expect(const cleave_image_folder *folder, int64_t i) {
    char path[MOST_PATH];
    int descriptor = open_picture(folder, i, path);
    if (descriptor < 0)
        return;
    posix_fadvise(descriptor, 0, 0, POSIX_FADV_WILLNEED);
    close(descriptor);
}

cleave_status cleave_image_folder_checksum(const cleave_image_folder *folder, int64_t most,
                                           int64_t *bytes, uint64_t *checksum,
                                           cleave_error *error) {
    char path[MOST_PATH];
    uint64_t sum = 0, of_file;
    int64_t all = 0, length;
    for (int64_t i = 0; i < folder->n; i++) {
        const cleave_picture *picture = &folder->pictures[i];
        sum = cleave_hash_join(sum, cleave_hash_string(folder->classes[picture->class]));
        sum = cleave_hash_join(sum, cleave_hash_string(picture->name));
        sum = cleave_hash_join(sum, (uint64_t)picture->stamp.bytes);
        all += picture->stamp.bytes;
    }
    for (int64_t i = 0, every = all / most + 1; i < folder->n; i += every) {
        path_of(folder, folder->pictures[i].class, folder->pictures[i].name, path);
        CLEAVE_TRY(cleave_file_checksum(path, most, &length, &of_file, error));
        sum = cleave_hash_join(sum, of_file);
    }
    *bytes = all;
    *checksum = sum;
    return CLEAVE_OK;
}
