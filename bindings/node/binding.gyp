# npm run build: node's own headers, and the libraries that pkg-config finds
{
  "targets": [
    {
      "target_name": "tuffet",
      "sources": ["<!@(ls src/*.c)"],
      "cflags_c": ["-std=c11", "-fvisibility=hidden"],
      "cflags": ["<!@(pkg-config --cflags tuffet-chat)"],
      "libraries": ["<!@(pkg-config --libs tuffet-chat)"]
    }
  ]
}
