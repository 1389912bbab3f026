package KitBroken;
die "broken on purpose";
