import unittest

from parcel import quote


class PriceTest(unittest.TestCase):
    def test_half_a_kilo_in_town(self):
        self.assertEqual(quote(500, "town"), 435)

    def test_two_kilos_abroad(self):
        self.assertEqual(quote(2000, "abroad"), 1470)


if __name__ == "__main__":
    unittest.main()
