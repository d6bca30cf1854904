# Writes a C file, OUTPUT, with the assets of a page; cmake -P calls it with the folder of the assets as FOLDER.

# 64 digits of 16 in base 64: three of them are two there, and two zeros fill up the last.
function(base64 hex result)
  set(alphabet ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/)
  set(digits "")
  foreach(at RANGE 0 63 3)
    string(SUBSTRING ${hex}00 ${at} 3 three)
    math(EXPR high "0x${three} >> 6")
    math(EXPR low "0x${three} & 63")
    string(SUBSTRING ${alphabet} ${high} 1 first)
    string(SUBSTRING ${alphabet} ${low} 1 second)
    string(APPEND digits ${first}${second})
  endforeach()
  string(SUBSTRING ${digits} 0 43 digits)
  set(${result} "${digits}=" PARENT_SCOPE)
endfunction()

# One asset: files, one behind the other, in the order of their names.
function(embed name pattern)
  file(GLOB files ${FOLDER}/${pattern})
  list(SORT files)
  execute_process(COMMAND ${CMAKE_COMMAND} -E cat ${files} OUTPUT_FILE ${OUTPUT}.${name} COMMAND_ERROR_IS_FATAL ANY)
  file(SHA256 ${OUTPUT}.${name} sum)
  base64(${sum} digest)
  file(READ ${OUTPUT}.${name} hex HEX)
  if(hex MATCHES "3c2f73[74][74]") # </st, </sc
    message(FATAL_ERROR "${FOLDER}/${pattern}: ends the element that it is put into")
  endif()
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
  file(APPEND ${OUTPUT} "static const char ${name}[] = {${bytes}0};\n"
                        "const cleave_asset cleave_asset_${name} = {${name}, \"sha256-${digest}\"};\n")
  file(REMOVE ${OUTPUT}.${name})
endfunction()

file(WRITE ${OUTPUT} "#include \"page/assets.h\"\n")
embed(style *.css)
embed(figure figure.css)
embed(script *.js)
