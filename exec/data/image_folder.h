/* A folder of pictures, as torchvision's ImageFolder has it: a folder for each class, whose number
   is its place among the sorted names; pictures (.jpg, .jpeg, .png) are the files in these, sorted
   by name, class after class.  What begins with a point is left out, and so is all else. */
#ifndef CLEAVE_EXEC_DATA_IMAGE_FOLDER_H
#define CLEAVE_EXEC_DATA_IMAGE_FOLDER_H

#include "base/arena.h"
#include "base/error.h"
#include "base/file.h"

typedef struct cleave_picture {
    const char *name;
    int32_t class;
    cleave_file_stamp stamp; /* of when it was listed */
} cleave_picture;

typedef struct cleave_image_folder {
    const char *path; /* null: none */
    int32_t n_classes;
    const char **classes; /* [n_classes] names of their folders */
    int64_t n;
    cleave_picture *pictures;
} cleave_image_folder;

enum { CLEAVE_MOST_IMAGE_CLASSES = 1 << 20 };

/* Lives in the arena.  BAD_INPUT, also where a class has no picture. */
cleave_status cleave_image_folder_list(const char *path, cleave_arena *arena,
                                       cleave_image_folder *folder, cleave_error *error);

/* BAD_INPUT where the classes are others. */
cleave_status cleave_image_folder_check_same(const cleave_image_folder *a,
                                             const cleave_image_folder *b, cleave_error *error);

/* Picture `i` as cleave_image_fit makes it, [channels][height][width].  BAD_INPUT naming the file
   that is no picture; FAILED where it was written to since it was listed. */
cleave_status cleave_image_folder_read(const cleave_image_folder *folder, int64_t i,
                                       const int64_t shape[3], float *values, cleave_error *error);
/* The system may begin to read it. */
void cleave_image_folder_expect(const cleave_image_folder *folder, int64_t i);

/* Bytes of all pictures, and a checksum of names, lengths and contents, of more than `most` bytes
   of the contents of every so manyth. */
cleave_status cleave_image_folder_checksum(const cleave_image_folder *folder, int64_t most,
                                           int64_t *bytes, uint64_t *checksum, cleave_error *error);

#endif
