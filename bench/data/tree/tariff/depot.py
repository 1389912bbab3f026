from collections import OrderedDict


class Depot:
    def __init__(self):
        self.shelves = OrderedDict()

    def receive(self, parcel):
        if parcel.number not in self.shelves:
            self.shelves[parcel.number] = len(self.shelves) + 1
        return self.shelves[parcel.number]

    def load(self):
        return sum(self.shelves.values())
